fn main() -> std::process::ExitCode {
    tpu_parity::cli::main()
}
