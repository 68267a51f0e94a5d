//! Signs a webhook as Meta does: the app's secret as argument, the body on stdin, the header's value on stdout.
//!
//! For bringing messages from elsewhere to `journeyman serve`, and for trying it out:
//!
//! ```sh
//! signature=$(cargo run --quiet --example sign_webhook -- "$WHATSAPP_APP_SECRET" < body.json)
//! curl --header "X-Hub-Signature-256: $signature" --data-binary @body.json http://127.0.0.1:8080/webhook
//! ```

use journeyman::doors::whatsapp::signature;
use std::io::{self, Read};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [secret] = arguments.as_slice() else {
        eprintln!("usage: sign_webhook SECRET < BODY");
        return Ok(ExitCode::from(2));
    };
    let mut body = Vec::new();
    io::stdin().read_to_end(&mut body)?;
    println!("{}", signature::sign(secret, &body));
    Ok(ExitCode::SUCCESS)
}
