//! The variable that links with certificates need: the program starts itself again with it.

/// Replaces this process by the same program with the variable that links with certificates need, if it is not set. If that
/// fails, the cluster says what is missing.
pub(crate) fn share() {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let [name, value] = menagerie::cluster::LINK_THREADS;
        let Ok(program) = std::env::current_exe() else { return };
        if std::env::var_os(name).is_none() {
            let error =
                std::process::Command::new(program).args(std::env::args_os().skip(1)).env(name, value).exec();
            crate::screen::report::note(&format!(
                "this program cannot start itself again with {name}: {error}"
            ));
        }
    }
}
