//! Lists of commands: what attackers try, and what a week of work needs.
