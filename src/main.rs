//! The `portcullis` program: picks the allocator, becomes the guardian if asked to, hands the arguments on, turns the
//! outcome into an exit code.

use std::process::ExitCode;

use portcullis::cli;
use portcullis::upstream::stdio::guardian;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "mimalloc")]
#[allow(unsafe_code, reason = "the allocator is a library of C")]
fn give_back() {
    // SAFETY: any thread may ask for it at any time.
    unsafe { libmimalloc_sys::mi_collect(false) }
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == guardian::ARGUMENT) {
        guardian::run();
        return ExitCode::SUCCESS;
    }
    #[cfg(feature = "mimalloc")]
    portcullis::base::memory::allocator(give_back);
    // It fails only if there is one already, which nothing before this line could have installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    cli::run(std::env::args_os()).code().into()
}
