//! Nothing is left after many children.

use crate::kit::play;

/// F-086: 200 children started and ended in three ways leave no descriptor and no process. In a process of its own, since
/// other tests open and start things meanwhile.
#[test]
fn f_086_two_hundred_cycles_leave_nothing() {
    let done = play("roles::cycles");
    assert!(done.contains("1 passed"), "{done}");
}
