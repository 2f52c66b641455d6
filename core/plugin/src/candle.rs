//! [`candle_views!`](crate::candle_views!): rows as tensors of candle, whatever version of it a plugin has.

/// Declares a module with the rows of a call as tensors of candle, for the candle that the crate itself depends on: no type
/// of candle crosses the border, so any version will do, beside any other in the host.
///
/// ```text
/// menagerie_plugin::candle_views! {
///     /// Rows as tensors of candle 0.10.
///     mod views for candle_core;
/// }
///
/// // in a component's `forward`
/// let x = views::tensor(&x)?; // [T, D], a copy
/// let y = x.sqr().and_then(|x| x.tanh()).map_err(menagerie_plugin::Error::new)?;
/// views::write(&y, &mut output)?;
/// ```
///
/// Both ways copy. Candle's own thread pool would stand beside the host's: heavy work belongs to the host's linears.
#[macro_export]
macro_rules! candle_views {
    ($(#[$meta:meta])* $vis:vis mod $name:ident for $candle:ident;) => {
        $(#[$meta])*
        #[allow(dead_code, unreachable_pub)]
        $vis mod $name {
            use ::$candle::{DType, Device, Tensor};

            /// Rows as a tensor `[rows, cols]` of f32.
            ///
            /// # Errors
            /// What candle says.
            pub fn tensor(rows: &$crate::Rows) -> $crate::Result<Tensor> {
                let shape = (rows.rows(), rows.cols());
                let tensor = match rows.as_slice() {
                    Some(whole) => Tensor::from_slice(whole, shape, &Device::Cpu),
                    None => {
                        let values = rows.iter().flatten().copied().collect();
                        Tensor::from_vec::<_, f32>(values, shape, &Device::Cpu)
                    }
                };
                tensor.map_err($crate::Error::new)
            }

            /// Numbers (a state's block, a weight's values) as a tensor of a shape.
            ///
            /// # Errors
            /// A shape that is not theirs.
            pub fn values(values: &[f32], shape: &[usize]) -> $crate::Result<Tensor> {
                // Not every version of candle looks.
                if shape.iter().product::<usize>() != values.len() {
                    return Err($crate::Error::new(format!("{} numbers do not form a tensor {shape:?}", values.len())));
                }
                Tensor::from_slice(values, shape, &Device::Cpu).map_err($crate::Error::new)
            }

            /// Writes a tensor `[rows, cols]` of any type of float into rows.
            ///
            /// # Errors
            /// A tensor of another shape; what candle says.
            pub fn write(tensor: &Tensor, rows: &mut $crate::RowsMut) -> $crate::Result<()> {
                let shape = [rows.rows(), rows.cols()];
                if tensor.dims() != shape {
                    let text = format!("a tensor {:?} does not fit into rows {shape:?}", tensor.dims());
                    return Err($crate::Error::new(text));
                }
                let values = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.flatten_all()?.to_vec1());
                let values: Vec<f32> = values.map_err($crate::Error::new)?;
                match shape[1] {
                    0 => Ok(()),
                    cols => rows.copy_from($crate::Rows::new(&values, cols)?),
                }
            }

            /// Writes a tensor into a state's block.
            ///
            /// # Errors
            /// A tensor of another number of elements; what candle says.
            pub fn write_values(tensor: &Tensor, into: &mut [f32]) -> $crate::Result<()> {
                let values = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.flatten_all()?.to_vec1());
                let values: Vec<f32> = values.map_err($crate::Error::new)?;
                if values.len() != into.len() {
                    let (have, want) = (values.len(), into.len());
                    return Err($crate::Error::new(format!("expected a tensor of {want} numbers, found {have}")));
                }
                into.copy_from_slice(&values);
                Ok(())
            }
        }
    };
}
