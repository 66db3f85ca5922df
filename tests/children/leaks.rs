//! Nothing is left after many children.

use std::process::Command;

use crate::kit::role;

/// F-086: 200 children started and ended in three ways leave no descriptor and no process. In a process of its own, since
/// other tests open and start things meanwhile.
#[test]
fn f_086_two_hundred_cycles_leave_nothing() {
    let role = role("roles::cycles");
    let done = Command::new(role.program).args(role.arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
}
