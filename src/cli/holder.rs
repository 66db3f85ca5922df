//! Who holds a port that we cannot have, as far as the system tells.

use std::net::SocketAddr;

/// The process that listens at an address, such as `nginx (pid 42)`. None where the system does not tell: not on
/// Linux, or for another user's process.
pub fn holder(address: SocketAddr) -> Option<String> {
    #[cfg(target_os = "linux")]
    return linux::holder(address);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = address;
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::path::Path;

    use crate::cli::output;

    /// The state of a socket that listens, in the tables of the kernel.
    const LISTENS: &str = "0A";

    pub(super) fn holder(address: SocketAddr) -> Option<String> {
        let sockets: Vec<_> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .flat_map(|table| table.lines().filter_map(|line| listener(line, address)).collect::<Vec<_>>())
            .collect();
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let numbered = processes.filter_map(|process| {
            let pid: u32 = process.file_name().to_str()?.parse().ok()?;
            Some((pid, process.path()))
        });
        let mut holders = numbered.filter(|(_, process)| has(process, &sockets));
        holders.next().map(|(pid, process)| {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            // Its arguments are not shown: they may hold secrets.
            format!("{} (pid {pid})", output::harmless(name.trim()))
        })
    }

    /// The link that leads to a socket which is in the way of `address`, if this line of the table is of one.
    pub(super) fn listener(line: &str, address: SocketAddr) -> Option<String> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let (ip, port) = local.split_once(':')?;
        if *state != LISTENS || u16::from_str_radix(port, 16).ok()? != address.port() {
            return None;
        }
        let ip = parse(ip)?;
        let meets = ip == address.ip() || ip.is_unspecified() || address.ip().is_unspecified();
        meets.then(|| format!("socket:[{inode}]"))
    }

    /// Addresses are words of 32 bits, each in the order of the machine.
    fn parse(hex: &str) -> Option<IpAddr> {
        let word = |n: usize| Some(u32::from_str_radix(hex.get(8 * n..8 * n + 8)?, 16).ok()?.to_ne_bytes());
        match hex.len() {
            8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
            32 => {
                let bytes: [[u8; 4]; 4] = [word(0)?, word(1)?, word(2)?, word(3)?];
                let bytes: [u8; 16] = bytes.concat().try_into().ok()?;
                Some(Ipv6Addr::from(bytes).to_canonical())
            }
            _ => None,
        }
    }

    fn has(process: &Path, sockets: &[String]) -> bool {
        let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
        descriptors.flatten().any(|descriptor| {
            let link = fs::read_link(descriptor.path()).unwrap_or_default();
            sockets.iter().any(|socket| link.as_os_str() == socket.as_str())
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    ///
    #[test]
    fn whoever_listens_is_named() {
        let own = format!("(pid {})", std::process::id());
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            // A machine without IPv6 has one case less.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address = listener.local_addr().unwrap();
            assert!(holder(address).unwrap().ends_with(&own), "{address}");
        }
    }

    #[test]
    fn only_listeners_at_the_address_count() {
        let line = |local: &str, state: &str| {
            format!("0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 77 1")
        };
        let address = "127.0.0.1:7420".parse().unwrap();
        let found = |line: &str| linux::listener(line, address);
        let own = format!("{:08X}:1CFC", u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(found(&line(&own, "0A")).as_deref(), Some("socket:[77]"));
        assert_eq!(found(&line("00000000:1CFC", "0A")).as_deref(), Some("socket:[77]"));
        assert_eq!(found(&line(&own, "01")), None, "a connection");
        assert_eq!(found(&line("00000000:1CFD", "0A")), None, "another port");
        assert_eq!(found("sl local_address rem_address st"), None);
        assert_eq!(found(""), None);
    }
}
