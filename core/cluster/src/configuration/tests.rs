//! Over real sockets on the loopback address: who is seen, and what each role may send.

use super::configuration;
use crate::certificates::{KeyFolder, KeyRequest, NodeRole};
use crate::node::ClusterNode;
use crate::options::ClusterOptions;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zenoh::Wait;

/// Time for what must happen.
const LONG: Duration = Duration::from_secs(30);
/// Time for what must not happen.
const SHORT: Duration = Duration::from_millis(700);

/// Certificates of an authority, one of each role; the names of the nodes are those of the roles.
fn keys(folder: &Path) -> PathBuf {
    let keys = KeyFolder::open_or_create(folder).unwrap();
    for role in NodeRole::ALL {
        keys.issue(&request(role), false).unwrap();
    }
    folder.to_owned()
}

fn request(role: NodeRole) -> KeyRequest {
    KeyRequest { name: role.name().to_owned(), role, hosts: vec!["127.0.0.1".to_owned()], days: 2 }
}

fn options(keys: &Path, role: NodeRole) -> ClusterOptions {
    ClusterOptions::new("c")
        .with_tls_dir(Some(keys.join(role.name())))
        .with_listen(vec!["127.0.0.1:0".to_owned()])
}

fn join(keys: &Path, role: NodeRole, seed: Option<&ClusterNode>) -> ClusterNode {
    let connect = seed.map(|seed| seed.endpoints().to_vec()).unwrap_or_default();
    ClusterNode::join(&options(keys, role).with_connect(connect)).unwrap()
}

/// A session with this configuration of TLS and without rules of its own.
fn stranger(tls: serde_json::Value, seed: &ClusterNode) -> zenoh::Session {
    let config = json!({
        "mode": "peer",
        "listen": { "endpoints": [] },
        "connect": { "endpoints": seed.endpoints() },
        "scouting": { "multicast": { "enabled": false } },
        "transport": { "link": { "tls": tls } },
    });
    zenoh::open(zenoh::Config::from_json5(&config.to_string()).unwrap()).wait().unwrap()
}

/// The tokens that a session sees.
fn tokens(session: &zenoh::Session) -> Vec<String> {
    let replies = session.liveliness().get("mng/c/v1/**").timeout(SHORT).wait().unwrap();
    let key = |reply: zenoh::query::Reply| reply.result().ok().map(|sample| sample.key_expr().to_string());
    let mut seen: Vec<String> = replies.iter().filter_map(key).collect();
    seen.sort();
    seen
}

/// Waits until a session sees this token.
fn sees(session: &zenoh::Session, token: &str) -> bool {
    let by = Instant::now() + LONG;
    while Instant::now() < by {
        if tokens(session).iter().any(|seen| seen == token) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn key_of(node: &ClusterNode) -> String {
    format!("mng/c/v1/node/{}", node.id())
}

/// The answers to a request.
fn answers(node: &ClusterNode, verb: &str) -> usize {
    let key = format!("mng/c/v1/m/r/rpc/n/{verb}");
    node.session()
        .get(key)
        .timeout(SHORT)
        .wait()
        .unwrap()
        .iter()
        .filter(|reply| reply.result().is_ok())
        .count()
}

#[test]
fn nodes_with_certificates_of_one_authority_see_each_other_and_no_others() {
    let (right, wrong) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (right, wrong) = (keys(&right.path().join("keys")), keys(&wrong.path().join("keys")));
    let stage = join(&right, NodeRole::Stage, None);
    let authority = right.join("stage/ca.crt");
    // Of another authority, which trusts the right one.
    let other = stranger(
        json!({
            "root_ca_certificate": authority,
            "connect_private_key": wrong.join("head/tls.key"),
            "connect_certificate": wrong.join("head/tls.crt"),
            "enable_mtls": true,
        }),
        &stage,
    );
    // Without a certificate.
    let nobody = stranger(json!({ "root_ca_certificate": authority, "enable_mtls": false }), &stage);
    // Of the right authority, with a name that is that of no role.
    let (certificate, key) = signed_as("menagerie-evil", &right);
    let evil = stranger(
        json!({
            "root_ca_certificate": authority,
            "connect_private_key": key,
            "connect_certificate": certificate,
            "enable_mtls": true,
        }),
        &stage,
    );
    let strangers = [&other, &nobody, &evil];
    let _tokens: Vec<_> = strangers
        .iter()
        .enumerate()
        .map(|(index, session)| {
            session.liveliness().declare_token(format!("mng/c/v1/node/stranger-{index}")).wait().unwrap()
        })
        .collect();
    let head = join(&right, NodeRole::Head, Some(&stage));
    assert!(sees(head.session(), &key_of(&stage)), "the head does not see the stage");
    assert!(sees(stage.session(), &key_of(&head)), "the stage does not see the head");
    std::thread::sleep(SHORT);
    for session in [stage.session(), head.session()] {
        assert!(tokens(session).iter().all(|token| !token.contains("stranger")), "{:?}", tokens(session));
    }
    for (index, session) in strangers.iter().enumerate() {
        let seen = tokens(session);
        assert!(seen.iter().all(|token| token.contains(&format!("stranger-{index}"))), "{index}: {seen:?}");
    }
    for session in [other, nobody, evil] {
        session.close().wait().unwrap();
    }
}

#[test]
fn a_node_that_listens_under_a_host_that_is_not_in_its_certificate_is_not_connected_to() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(&folder.path().join("keys"));
    let elsewhere = KeyRequest { hosts: vec!["elsewhere.example".to_owned()], ..request(NodeRole::Stage) };
    KeyFolder::open_or_create(&keys).unwrap().issue(&elsewhere, true).unwrap();
    let stage = join(&keys, NodeRole::Stage, None);
    let head = join(&keys, NodeRole::Head, Some(&stage));
    std::thread::sleep(SHORT);
    assert_eq!(tokens(head.session()), [key_of(&head)]);
}

#[test]
fn each_role_may_send_what_it_needs_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(&folder.path().join("keys"));
    let stage = join(&keys, NodeRole::Stage, None);
    let [head, operator] = [NodeRole::Head, NodeRole::Operator].map(|role| join(&keys, role, Some(&stage)));
    let reply = |query: zenoh::query::Query| {
        let key = query.key_expr().clone();
        query.reply(key, "yes").wait().unwrap();
    };
    let _answering =
        stage.session().declare_queryable("mng/c/v1/m/r/rpc/n/*").callback(reply).wait().unwrap();
    let frames = stage.session().declare_subscriber("mng/c/v1/m/r/e1/fwd/0").wait().unwrap();
    let heard = operator.session().declare_subscriber("mng/c/v1/m/r/e1/**").wait().unwrap();
    // A head must not claim to be a stage.
    let claim = "mng/c/v1/m/r/stage/false";
    let _claim = head.session().liveliness().declare_token(claim).wait().unwrap();
    assert!(sees(stage.session(), &key_of(&head)) && sees(stage.session(), &key_of(&operator)));
    let by = Instant::now() + LONG;
    while answers(&head, "open") == 0 || answers(&operator, "describe") == 0 {
        assert!(Instant::now() < by, "no answers");
    }
    assert_eq!(answers(&operator, "open"), 0);
    assert_eq!(answers(&operator, "drain"), 1);
    for (node, text) in [(&operator, "forged"), (&head, "right")] {
        let publisher = node.session().declare_publisher("mng/c/v1/m/r/e1/fwd/0").wait().unwrap();
        while text == "right" && !publisher.matching_status().wait().unwrap().matching() {
            assert!(Instant::now() < by, "the stage does not receive");
            std::thread::sleep(Duration::from_millis(5));
        }
        publisher.put(text).wait().unwrap();
    }
    let first = frames.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(first.payload().try_to_string().unwrap(), "right");
    // It hears only itself.
    while let Some(sample) = heard.recv_timeout(SHORT).unwrap() {
        assert_eq!(sample.payload().try_to_string().unwrap(), "forged", "an operator reads frames");
    }
    assert!(!tokens(stage.session()).iter().any(|token| token == claim), "a head claims to be a stage");
}

#[test]
fn addresses_of_other_machines_need_certificates_or_consent() {
    let local = ClusterOptions::new("c");
    let said = |options: &ClusterOptions, listen: &str| {
        configuration(options, &[listen.to_owned()]).map(drop).map_err(|error| error.to_string())
    };
    said(&local, "127.0.0.1:7447").unwrap();
    for open in ["0.0.0.0:7447", "[::]:7447", "10.0.0.1:7447", "node.example:7447"] {
        let refused = said(&local, open).unwrap_err();
        for words in [open, "without certificates", "menagerie cluster keys", "--tls-dir", "--insecure"] {
            assert!(refused.contains(words), "{refused}");
        }
        said(&local.clone().with_insecure(true), open).unwrap();
    }
    let remote = local.clone().with_connect(vec!["10.0.0.1:7447".to_owned()]);
    assert!(said(&remote, "127.0.0.1:0").unwrap_err().contains("cannot connect to 10.0.0.1:7447"));
    assert!(said(&local.clone().with_lan(true), "127.0.0.1:0").unwrap_err().contains("--lan"));
    assert!(said(&local, "tls/127.0.0.1:0").unwrap_err().contains("give --tls-dir"));
}

#[test]
fn folders_of_certificates_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(&folder.path().join("keys"));
    let said = |tls: &Path, listen: &str| {
        let options = ClusterOptions::new("c").with_tls_dir(Some(tls.to_owned()));
        configuration(&options, &[listen.to_owned()]).map(drop).map_err(|error| error.to_string())
    };
    said(&keys.join("stage"), "0.0.0.0:7447").unwrap();
    assert!(said(&keys.join("stage"), "tcp/127.0.0.1:7447").unwrap_err().contains("without `tcp/`"));
    assert!(said(&keys.join("absent"), "0.0.0.0:7447").unwrap_err().contains("ca.crt"));
    let (certificate, key) = signed_as("menagerie-evil", &keys);
    let evil = certificate.parent().unwrap();
    std::fs::copy(&certificate, evil.join("tls.crt")).unwrap();
    std::fs::copy(&key, evil.join("tls.key")).unwrap();
    std::fs::copy(keys.join("ca.crt"), evil.join("ca.crt")).unwrap();
    assert!(said(evil, "0.0.0.0:7447").unwrap_err().contains("\"menagerie-evil\""));
    std::fs::copy(keys.join("stage/tls.crt"), keys.join("stage/ca.crt")).unwrap();
    assert!(
        said(&keys.join("stage"), "0.0.0.0:7447")
            .unwrap_err()
            .contains("not the certificate of an authority")
    );
    std::fs::remove_file(keys.join("head/tls.key")).unwrap();
    assert!(said(&keys.join("head"), "0.0.0.0:7447").unwrap_err().contains("tls.key"));
}

#[test]
fn settings_are_those_that_the_guarantees_need() {
    let options = ClusterOptions::new("c").with_lease(Duration::from_millis(1500));
    let config = configuration(&options, &["127.0.0.1:0".to_owned()]).unwrap();
    let of = |key: &str| config.get_json(key).unwrap();
    assert_eq!(of("scouting/multicast/enabled"), "false");
    assert_eq!(of("transport/link/tx/lease"), "1500");
    assert_eq!(of("transport/link/tx/queue/congestion_control/block/wait_before_close"), "60000000");
    assert_eq!(of("transport/link/protocols"), "[\"tcp\"]");
    assert_eq!(of("adminspace/enabled"), "false");
    assert_eq!(of("transport/unicast/compression/enabled"), "false");
}

/// A certificate of the authority with another common name, as someone with its key could make it.
fn signed_as(common_name: &str, keys: &Path) -> (PathBuf, PathBuf) {
    let signer = rcgen::KeyPair::from_pem(&std::fs::read_to_string(keys.join("ca.key")).unwrap()).unwrap();
    let mut issuer = rcgen::CertificateParams::default();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    issuer.distinguished_name.push(rcgen::DnType::CommonName, "menagerie cluster authority");
    issuer.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    let mut wanted = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    wanted.distinguished_name = rcgen::DistinguishedName::new();
    wanted.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    wanted.extended_key_usages =
        vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = wanted.signed_by(&key, &rcgen::Issuer::from_params(&issuer, signer)).unwrap();
    let folder = keys.join("evil.d");
    std::fs::create_dir(&folder).unwrap();
    let paths = (folder.join("evil.crt"), folder.join("evil.key"));
    std::fs::write(&paths.0, certificate.pem()).unwrap();
    std::fs::write(&paths.1, key.serialize_pem()).unwrap();
    paths
}
