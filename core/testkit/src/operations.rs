//! The operations of every backend, for backends that do the same in each.

/// Passes all operations to a macro that generates a method for each. Their types must be in scope.
macro_rules! operations {
    ($made:ident) => {
        $made! {
            fn supports(operation: Operation) -> ();
            fn matrix(weight: &Weight, arithmetic: Arithmetic) -> Param;
            fn values(weight: &Weight) -> Vec<f32>;
            fn columns(x: &Rows, columns: std::ops::Range<usize>) -> Rows;
            fn lookup(table: &Param, ids: &[u32]) -> Rows;
            fn products(products: &[Product], x: &LinearInput, arithmetic: Arithmetic) -> Vec<Rows>;
            fn expert_products(
                stacks: &[Product], x: &LinearInput, plan: &ExpertPlan, packing: Packing, arithmetic: Arithmetic
            ) -> Vec<Rows>;
            fn pack_weighted(x: &Rows, plan: &ExpertPlan) -> Rows;
            fn combine(packed: &Rows, plan: &ExpertPlan, apply: RouterApply) -> Rows;
            fn rms_norm(x: &Rows, weight: Option<&Param>, eps: f32) -> Rows;
            fn layer_norm(x: &Rows, weight: Option<&Param>, bias: Option<&Param>, eps: f32) -> Rows;
            fn rope_table(positions: &[u32], frequencies: &[f32], magnitude: f32) -> RopeTable;
            fn rotate(x: Rows, rotation: Rotation) -> Rows;
            fn attention(
                shape: &AttentionShape, states: AttentionStates, operands: [&Rows; 3], biases: AttentionBiases, step: StateStep
            ) -> Rows;
            fn short_conv(x: &Rows, kernel: &Param, state: StateId, step: StateStep) -> Rows;
            fn split(x: &Rows, widths: [usize; 2]) -> [Rows; 2];
            fn join(parts: [&Rows; 2]) -> Rows;
            fn linear_attention(
                shape: &LinearAttentionShape, inputs: &LinearAttentionInputs, state: StateId, step: StateStep
            ) -> Rows;
            fn selective_scan(inputs: &SelectiveScanInputs, state: StateId, step: StateStep) -> Rows;
            fn add(x: Rows, y: &Rows) -> Rows;
            fn add_rows(x: Rows, rows: &[u32], y: &Rows) -> Rows;
            fn multiply(x: Rows, y: &Rows) -> Rows;
            fn add_vector(x: Rows, row: &Param) -> Rows;
            fn multiply_vector(x: Rows, row: &Param) -> Rows;
            fn scale(x: Rows, factor: f32) -> Rows;
            fn scale_rows(x: Rows, factors: &[f32]) -> Rows;
            fn gate_rows(x: Rows, gate: &Rows, activation: Activation) -> Rows;
            fn clamp(x: Rows, limit: f32) -> Rows;
            fn softcap(x: Rows, cap: f32) -> Rows;
            fn activate(x: Rows, activation: Activation) -> Rows;
            fn gated(gate: Rows, up: &Rows, gating: Gating) -> Rows;
        }
    };
}

pub(crate) use operations;
