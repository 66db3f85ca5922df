//! The rows that are measured: which lanes stand side by side, and what they are put to.

use crate::{lanes::Target, upstream::Fleet, work::Work};

/// A lane of a stage, by the name it has in the results.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub name: &'static str,
    pub target: Target,
    /// The upstreams behind it; none means a stdio child.
    pub fleet: Option<Fleet>,
}

/// What every lane of a stage does in turn.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub row: &'static str,
    pub work: Work,
    pub connections: usize,
    pub sessions: usize,
    /// Calls left waiting at upstream 1, which hangs meanwhile.
    pub parked: usize,
}

/// Lanes that run side by side and take turns within each round.
#[derive(Clone, Debug)]
pub struct Stage {
    pub lanes: Vec<Plan>,
    pub scenarios: Vec<Scenario>,
}

/// Tools of an upstream, where their number does not matter.
pub const TOOLS: usize = 20;

/// The one upstream of most rows.
pub const ONE: Fleet = Fleet { upstreams: 1, tools: TOOLS };

const TEN: Fleet = Fleet { upstreams: 10, tools: 50 };
/// As many tools as [`TEN`] has, for those who only carry bytes.
const TEN_IN_ONE: Fleet = Fleet { upstreams: 1, tools: 500 };
const FEW: Fleet = Fleet { upstreams: 1, tools: 5 };
const HUNDRED: Fleet = Fleet { upstreams: 100, tools: 5 };
const PAIR: Fleet = Fleet { upstreams: 2, tools: TOOLS };

/// Calls that wait at the hung upstream.
const PARKED: usize = 16;

/// All rows that are measured by a load in a loop, stage by stage.
pub fn stages() -> Vec<Stage> {
    vec![
        Stage {
            lanes: everybody(ONE, ONE),
            scenarios: vec![
                scenario("call-1", Work::Call, 1),
                scenario("call-16", Work::Call, 16),
                scenario("call-64", Work::Call, 64),
                scenario("sse", Work::Steps, 16),
                scenario("session", Work::Session, 16),
            ],
        },
        // Apart, so that its peak is counted from a target that has done nothing else.
        Stage { lanes: everybody(ONE, ONE), scenarios: vec![scenario("large", Work::Large, 4)] },
        Stage { lanes: everybody(TEN, TEN_IN_ONE), scenarios: vec![scenario("list", Work::List(500), 8)] },
        Stage {
            lanes: vec![gateway("gateway", FEW), gateway("gateway-100", HUNDRED)],
            scenarios: vec![
                scenario("upstreams-call", Work::Call, 16),
                scenario("upstreams-session", Work::Session, 4),
            ],
        },
        Stage {
            lanes: everybody(ONE, ONE),
            scenarios: [("sessions-16", 16), ("sessions-1000", 1000)]
                .map(|(row, sessions)| Scenario { sessions, ..scenario(row, Work::Call, 16) })
                .to_vec(),
        },
        Stage {
            lanes: vec![
                Plan { name: "direct", target: Target::Direct, fleet: None },
                Plan { name: "gateway", target: Target::Gateway, fleet: None },
            ],
            scenarios: vec![scenario("stdio-16", Work::Call, 16)],
        },
        Stage { lanes: vec![gateway("gateway", PAIR)], scenarios: hung() },
    ]
}

/// The lanes that are started anew for each figure of `start` and `idle`.
pub fn fresh() -> Vec<Plan> {
    everybody(ONE, ONE)
}

/// The gateway before one upstream.
pub fn alone() -> Plan {
    gateway("gateway", ONE)
}

/// Calls to upstream 0: twice while all is well, so that the noise is known, and while upstream 1 hangs.
fn hung() -> Vec<Scenario> {
    let calm = |row| scenario(row, Work::CallFirst, 16);
    vec![calm("hung-calm"), calm("hung-control"), Scenario { parked: PARKED, ..calm("hung") }]
}

fn everybody(behind_gateway: Fleet, behind_others: Fleet) -> Vec<Plan> {
    let other = |name, target| Plan { name, target, fleet: Some(behind_others) };
    vec![
        other("direct", Target::Direct),
        other("proxy", Target::Proxy),
        other("nginx", Target::Nginx),
        gateway("gateway", behind_gateway),
    ]
}

fn gateway(name: &'static str, fleet: Fleet) -> Plan {
    Plan { name, target: Target::Gateway, fleet: Some(fleet) }
}

fn scenario(row: &'static str, work: Work, connections: usize) -> Scenario {
    Scenario { row, work, connections, sessions: connections, parked: 0 }
}
