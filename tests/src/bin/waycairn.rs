//! The program under test: what the binary `waycairn` is.

fn main() -> std::process::ExitCode {
    waycairn_cli::main()
}
