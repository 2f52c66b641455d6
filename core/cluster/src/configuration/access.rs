//! [`access_control`]: which messages of which role are accepted. Everything else is denied.

use crate::certificates::NodeRole;
use serde_json::{Value, json};

/// Messages of zenoh, as its rules name them.
const DATA: &[&str] = &["put", "declare_subscriber"];
const SERVED: &[&str] = &["declare_queryable", "reply"];
const ASKED: &[&str] = &["query"];
const TOKEN: &[&str] = &["liveliness_token"];
const WATCHED: &[&str] = &["liveliness_query", "declare_liveliness_subscriber"];
const ALL: &[&str] = &[
    "put",
    "declare_subscriber",
    "declare_queryable",
    "reply",
    "query",
    "liveliness_token",
    "liveliness_query",
    "declare_liveliness_subscriber",
];

/// What a role may send: messages, and the keys below `mng/CLUSTER/v1/` (`keys.rs` lists them).
type Grant = (&'static [&'static str], &'static [&'static str]);

/// What stages may send: frames, answers, and tokens of stages and of members.
const STAGE: &[Grant] = &[
    (DATA, &["*/*/*/fwd/*", "*/*/*/back/*"]),
    (SERVED, &["*/*/rpc/**"]),
    (TOKEN, &["node/*", "*/*/stage/*", "*/*/*/member/*"]),
    (WATCHED, &["**"]),
];

/// What heads may send: frames, requests, and tokens of members, but none of stages.
const HEAD: &[Grant] = &[
    (DATA, &["*/*/*/fwd/*", "*/*/*/back/*"]),
    (ASKED, &["*/*/rpc/**"]),
    (TOKEN, &["node/*", "*/*/*/member/*"]),
    (WATCHED, &["**"]),
];

/// What operators may send: requests that change or show the state of a stage, and nothing with data of requests.
const OPERATOR: &[Grant] =
    &[(ASKED, &["*/*/rpc/*/describe", "*/*/rpc/*/drain"]), (TOKEN, &["node/*"]), (WATCHED, &["**"])];

fn grants(role: NodeRole) -> &'static [Grant] {
    match role {
        NodeRole::Stage => STAGE,
        NodeRole::Head => HEAD,
        NodeRole::Operator => OPERATOR,
    }
}

/// The rules of access of a node in this cluster.
pub(crate) fn access_control(cluster: &str) -> Value {
    let whole = format!("mng/{cluster}/v1/**");
    let mut rules = vec![json!({
        "id": "to members",
        "messages": ALL,
        "flows": ["egress"],
        "permission": "allow",
        "key_exprs": [whole],
    })];
    let (mut subjects, mut policies) = (Vec::new(), Vec::new());
    for role in NodeRole::ALL {
        let mut own = vec!["to members".to_owned()];
        for (number, (messages, keys)) in grants(role).iter().enumerate() {
            let keys: Vec<String> = keys.iter().map(|key| format!("mng/{cluster}/v1/{key}")).collect();
            let id = format!("from {role} {number}");
            rules.push(json!({
                "id": id,
                "messages": messages,
                "flows": ["ingress"],
                "permission": "allow",
                "key_exprs": keys,
            }));
            own.push(id);
        }
        subjects.push(json!({ "id": role.name(), "cert_common_names": [role.common_name()] }));
        policies.push(json!({ "rules": own, "subjects": [role.name()] }));
    }
    json!({
        "enabled": true,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    })
}
