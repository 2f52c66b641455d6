//! Clusters: nodes, certificates, plans.

use menagerie::cluster::{CertificateError, ClusterError, Day, LayerRangesError};

#[test]
fn cluster() {
    let said = messages![
        ClusterError::Options("the name of a cluster has 1 to 128 letters".to_owned()),
        ClusterError::Network("cannot announce this node: closed".to_owned()),
        ClusterError::Incomplete("there is no stage with layers 0 to 3".to_owned()),
        ClusterError::Different("weights: the stage has a, the head has b".to_owned()),
        ClusterError::Refused("it serves another head, b".to_owned()),
        LayerRangesError::Input("0 nodes: expected 1 to 1024".to_owned()),
        LayerRangesError::Memory { needed: 40, available: 30, detail: String::new() },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn certificates() {
    let path = || "keys/a/tls.crt".to_owned();
    let said = messages![
        CertificateError::File { path: path(), reason: "not a PEM file".to_owned() },
        CertificateError::Name { name: "../a".to_owned() },
        CertificateError::Host { host: "*.example".to_owned() },
        CertificateError::Days { days: 9999, most: 3650 },
        CertificateError::Authority { path: path(), expires: Day::of_seconds(0), days: 365 },
        CertificateError::NoKey { path: "keys/ca.key".to_owned() },
        CertificateError::Different {
            path: path(),
            what: "role",
            found: "stage".to_owned(),
            expected: "head".to_owned()
        },
        CertificateError::Mixed { with: "b".to_owned() },
        CertificateError::Unusable { path: path(), reason: "expired on 2026-01-01".to_owned() },
        CertificateError::Signing("bad key".to_owned()),
    ];
    insta::assert_snapshot!(said);
}
