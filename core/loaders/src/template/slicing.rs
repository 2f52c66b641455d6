//! `value[start:stop:step]` as in Python.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// A slice of a string or list. Bounds outside of it are moved to its ends; negative ones count from the end.
///
/// # Errors
/// The value is neither a string nor a list, a bound is not an integer, or the step is 0.
pub(super) fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |value: &Value| match value.is_none() {
        true => Ok(None),
        false => i64::try_from(value.clone()).map(Some),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "the step of a slice is 0"));
    }
    if let Some(text) = value.as_str() {
        let characters: Vec<char> = text.chars().collect();
        let places = places(characters.len(), start, stop, step);
        return Ok(Value::from(places.filter_map(|at| characters.get(at)).collect::<String>()));
    }
    let listed = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) && value.len().is_some();
    if !listed {
        let problem = format!("a value of type {} cannot be sliced", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let part: Vec<Value> =
        places(items.len(), start, stop, step).filter_map(|at| items.get(at).cloned()).collect();
    Ok(if value.is_tuple() { Value::from(Tuple::from(part)) } else { Value::from(part) })
}

/// The indices of a slice of `length` items.
fn places(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    // With a negative step, the position before the first item is a bound too.
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |given: i64| {
        let from_start = if given < 0 { given.saturating_add(length) } else { given };
        from_start.clamp(lowest, highest.max(lowest))
    };
    let (first, end) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let (first, end) = (start.map_or(first, bound), stop.map_or(end, bound));
    let inside = move |at: &i64| if step > 0 { *at < end } else { *at > end };
    let next = move |at: &i64| at.checked_add(step);
    std::iter::successors(Some(first), next).take_while(inside).filter_map(|at| usize::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    use super::places;

    /// Start, stop, step, and the resulting positions.
    type Case = (Option<i64>, Option<i64>, i64, &'static [usize]);

    /// The results of `list(range(4))[start:stop:step]` in Python 3.11.
    #[test]
    fn places_are_those_of_python() {
        let cases: [Case; 12] = [
            (None, None, 1, &[0, 1, 2, 3]),
            (Some(-2), None, 1, &[2, 3]),
            (None, Some(-1), 1, &[0, 1, 2]),
            (Some(-9), Some(9), 2, &[0, 2]),
            (Some(3), Some(1), 1, &[]),
            (None, None, -1, &[3, 2, 1, 0]),
            (Some(2), Some(0), -1, &[2, 1]),
            (Some(9), Some(-9), -2, &[3, 1]),
            (Some(1), Some(3), -1, &[]),
            (Some(-3), None, -1, &[1, 0]),
            (None, Some(-2), -1, &[3]),
            (Some(i64::MAX), Some(i64::MIN), i64::MIN, &[3]),
        ];
        for (start, stop, step, expected) in cases {
            assert_eq!(
                places(4, start, stop, step).collect::<Vec<_>>(),
                expected,
                "{start:?}:{stop:?}:{step}"
            );
        }
        assert_eq!(places(0, None, None, -1).count(), 0);
        assert_eq!(places(0, Some(-1), Some(2), 1).count(), 0);
    }
}
