//! What a plan is made from: [`LayerSizes`] and [`NodeMeasure`].

use serde::Deserialize;

/// The most nodes of a plan.
pub(crate) const MOST_NODES: usize = 1024;
/// The most bytes of a file with nodes.
const MOST_BYTES: usize = 1 << 20;
/// The longest name of a node.
const LONGEST_NAME: usize = 128;

/// The sizes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSizes {
    /// The layers, in order.
    pub layers: Vec<ShapeLayer>,
    /// Bytes of the embedding, which the first stage has.
    pub embedding_bytes: u64,
    /// Bytes of the head, which the last stage has and reads for every token. A head that is the embedding counts again.
    pub head_bytes: u64,
}

/// The sizes of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeLayer {
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// Bytes of its states for all sequences.
    pub state_bytes: u64,
    /// Whether a stage may begin with it.
    pub may_begin_stage: bool,
}

/// The memory and the speed of a node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeMeasure {
    /// Its name.
    pub name: String,
    /// Bytes for weights and states.
    pub memory_bytes: u64,
    /// Milliseconds for an average layer of the model and one token.
    pub ms_per_layer: f64,
}

/// A file with nodes, for plans without a running cluster:
/// `{"nodes": [{"name": "a", "memory_bytes": 17179869184, "ms_per_layer": 0.8}]}`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesFile {
    /// The nodes; the order matters only if there are more than ten.
    pub nodes: Vec<NodeMeasure>,
    /// Milliseconds of a row from one node to the next.
    #[serde(default = "default_hop")]
    pub hop_ms: f64,
}

/// A row of some thousand numbers on a fast network takes about a tenth of a millisecond.
fn default_hop() -> f64 {
    0.1
}

impl NodesFile {
    /// Reads a file with nodes.
    ///
    /// # Errors
    /// A text that is not such a file, or has numbers that no node can have.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err("larger than 1 MiB: not a file with nodes".to_owned());
        }
        let file: Self = serde_json::from_str(text).map_err(|error| {
            format!(
                "{error}; expected {{\"nodes\": [{{\"name\": \"a\", \"memory_bytes\": 17179869184, \"ms_per_layer\": 0.8}}]}}"
            )
        })?;
        check_nodes(&file.nodes)?;
        match file.hop_ms.is_finite() && file.hop_ms >= 0.0 {
            true => Ok(file),
            false => Err(format!("hop_ms is {}: expected milliseconds, 0 or more", file.hop_ms)),
        }
    }
}

/// Checks the numbers and names of nodes.
pub(crate) fn check_nodes(nodes: &[NodeMeasure]) -> Result<(), String> {
    if nodes.is_empty() || nodes.len() > MOST_NODES {
        return Err(format!("{} nodes: expected 1 to {MOST_NODES}", nodes.len()));
    }
    for (index, NodeMeasure { name, memory_bytes: _, ms_per_layer }) in nodes.iter().enumerate() {
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!(
                "the name of node {index} is {name:?}: expected 1 to {LONGEST_NAME} bytes without control characters"
            ));
        }
        if !ms_per_layer.is_finite() || *ms_per_layer <= 0.0 {
            return Err(format!(
                "ms_per_layer of node {name} is {ms_per_layer}: expected milliseconds above 0"
            ));
        }
        if nodes[..index].iter().any(|other| other.name == *name) {
            return Err(format!("two nodes are named {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_nodes_are_checked() {
        let good = r#"{"nodes": [{"name": "a", "memory_bytes": 1, "ms_per_layer": 0.5}], "hop_ms": 0}"#;
        let file = NodesFile::parse(good).unwrap();
        assert_eq!((file.nodes[0].name.as_str(), file.hop_ms), ("a", 0.0));
        for (from, to, expected) in [
            ("0.5", "-1", "ms_per_layer"),
            ("0.5", "1e999", "number out of range"),
            ("0.5", "0", "ms_per_layer"),
            ("\"a\"", "\"\\u001b\"", "control characters"),
            ("\"a\"", "\"\"", "name of node 0"),
            ("\"hop_ms\": 0", "\"hop_ms\": -1", "hop_ms"),
            ("\"hop_ms\": 0", "\"hops\": 1", "unknown field"),
            ("\"memory_bytes\": 1", "\"memory_bytes\": -1", "memory_bytes"),
            ("\"nodes\"", "\"node\"", "unknown field"),
        ] {
            let said = NodesFile::parse(&good.replace(from, to)).unwrap_err();
            assert!(said.contains(expected) && !said.contains('\u{1b}'), "{to}: {said}");
        }
        assert!(NodesFile::parse(r#"{"nodes": []}"#).unwrap_err().contains("0 nodes"));
        let twice = good.replace("],", r#", {"name": "a", "memory_bytes": 1, "ms_per_layer": 0.5}],"#);
        assert!(NodesFile::parse(&twice).unwrap_err().contains("two nodes"));
    }
}
