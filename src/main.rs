//! Command line in, exit code out.

fn main() -> std::process::ExitCode {
    journeyman::cli::main()
}
