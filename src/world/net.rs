//! HTTP clients, made for the address that they will talk to. Nothing here sends anything.

use reqwest::Client;
use reqwest::redirect::Policy;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A client for requests to `base_url`.
///
/// The machine's root certificates are read only for an address that needs them: they cost milliseconds at the start and
/// megabytes afterwards. A client without them follows no redirect, which may lead to where they are needed.
pub fn client(base_url: &str) -> Client {
    if base_url.starts_with("https://") {
        return Client::new();
    }
    let plain = Client::builder()
        .tls_certs_only([])
        .redirect(Policy::none());
    plain
        .build()
        .expect("BUG: a client without certificates can always be made")
}

/// One that follows no redirect wherever it talks to: its requests carry a token.
pub fn strict_client(base_url: &str) -> Client {
    if !base_url.starts_with("https://") {
        return client(base_url);
    }
    let strict = Client::builder().redirect(Policy::none()).build();
    strict.expect("BUG: a client that follows nothing can always be made")
}

/// One for an address that a workspace names: by https, to the public network only, without a redirect. Names are looked up
/// once, so that they lead nowhere else later.
///
/// # Errors
/// Why it is not used.
pub async fn public_client(url: &str) -> Result<Client, String> {
    let url = reqwest::Url::parse(url).map_err(|error| format!("no address: {error}"))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    if url.scheme() != "https" || host.is_empty() {
        return Err("a workspace's own server is reached by https only".into());
    }
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
    let found = found.map_err(|error| format!("{host} cannot be looked up: {error}"))?;
    let addresses: Vec<SocketAddr> = found.collect();
    if let Some(private) = addresses.iter().find(|address| !is_public(address.ip())) {
        return Err(format!(
            "{host} is at {}, which is not public",
            private.ip()
        ));
    }
    let client = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .resolve_to_addrs(&host, &addresses);
    client
        .build()
        .map_err(|error| format!("no client for {host}: {error}"))
}

/// Whether an address is one of the public network.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let assigned = a == 192 && b == 0 && c == 0;
            let benchmarks = a == 198 && (18..20).contains(&b);
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_documentation()
                || a == 0
                || a >= 224
                || shared
                || assigned
                || benchmarks)
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            match v6.to_ipv4_mapped() {
                Some(v4) => is_public(v4.into()),
                // Global unicast, without what stands for other networks.
                None => first & 0xe000 == 0x2000 && !matches!(first, 0x2002) && !v6_special(&v6),
            }
        }
    }
}

/// Teredo, documentation, and others below 2001::/23.
fn v6_special(address: &Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first == 0x2001 && (second < 0x0200 || second == 0x0db8)
}

/// A body, cut where it is longer than this.
///
/// # Errors
/// Where the connection breaks.
pub async fn read_up_to(
    mut response: reqwest::Response,
    bytes_max: usize,
) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if bytes.len() == bytes_max {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_known() {
        let not = [
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "::1",
            "fe80::1",
            "fc00::1",
            "::ffff:10.0.0.1",
            "2002:7f00:1::",
            "64:ff9b::a00:1",
            "224.0.0.1",
        ];
        for address in not {
            assert!(
                !is_public(address.parse().expect("an address")),
                "{address}"
            );
        }
        for address in ["1.1.1.1", "140.82.121.3", "2606:4700::1111"] {
            assert!(is_public(address.parse().expect("an address")), "{address}");
        }
    }
}
