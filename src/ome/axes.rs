//! The axes of an image: which there can be.
//!
//! Source: the OME-Zarr specifications 0.5 and 0.6, "axes" and "multiscales".

use crate::config::{Dim, DimKind};

/// Why these dimensions can't be an image of OME-Zarr, and what could. `None`: they can.
pub(crate) fn incompatibility(dims: &[Dim]) -> Option<String> {
    const POSSIBLE: &str = "OME-Zarr takes 2 to 5 dimensions: at most one of time, then at most one of channel or \
                            another kind, then two or three of space";
    let count = |wanted: fn(DimKind) -> bool| dims.iter().filter(|dim| wanted(dim.kind)).count();
    let space = count(|kind| kind == DimKind::Space);
    let time = count(|kind| kind == DimKind::Time);
    let other = count(|kind| matches!(kind, DimKind::Channel | DimKind::Other));
    let names = || dims.iter().map(|dim| dim.name.as_str()).collect::<Vec<_>>().join(", ");

    let reason = if !(2..=5).contains(&dims.len()) {
        format!("there are {} dimensions ({})", dims.len(), names())
    } else if !(2..=3).contains(&space) {
        format!("{space} of the dimensions ({}) are of space", names())
    } else if time > 1 {
        format!("{time} of the dimensions ({}) are of time", names())
    } else if other > 1 {
        format!("{other} of the dimensions ({}) are of channel or another kind", names())
    } else if !dims.is_sorted_by_key(|dim| rank(dim.kind)) {
        format!("the dimensions stand in the order {}", names())
    } else {
        return None;
    };
    Some(format!("{reason}; {POSSIBLE}"))
}

/// Where a kind of axis stands among the others.
fn rank(kind: DimKind) -> u8 {
    match kind {
        DimKind::Time => 0,
        DimKind::Channel | DimKind::Other => 1,
        DimKind::Space => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_ome_zarr_has_room_for() {
        assert_eq!(incompatibility(&super::super::tests::five_dimensions().dims), None);
        assert_eq!(incompatibility(&[Dim::y(1), Dim::x(1)]), None);
        assert_eq!(incompatibility(&[Dim::new("p", DimKind::Other, 3), Dim::y(1), Dim::x(1)]), None);
    }

    #[test]
    fn axes_that_it_has_no_room_for_are_named_with_the_reason() {
        let space = |name| Dim::new(name, DimKind::Space, 4);
        let cases = [
            (vec![Dim::x(1)], "there are 1 dimensions (x)"),
            (
                vec![Dim::time(1), Dim::channel(1), Dim::z(1), space("w"), Dim::y(1), Dim::x(1)],
                "there are 6 dimensions",
            ),
            (vec![Dim::time(1), Dim::x(1)], "1 of the dimensions (t, x) are of space"),
            (vec![Dim::z(1), space("w"), Dim::y(1), Dim::x(1)], "4 of the dimensions"),
            (vec![Dim::time(1), Dim::time(1), Dim::y(1), Dim::x(1)], "2 of the dimensions (t, t, y, x) are of time"),
            (vec![Dim::new("p", DimKind::Other, 1), Dim::channel(1), Dim::y(1), Dim::x(1)], "2 of the dimensions"),
            (vec![Dim::channel(1), Dim::time(1), Dim::y(1), Dim::x(1)], "stand in the order c, t, y, x"),
            (vec![Dim::z(1), Dim::time(1), Dim::y(1), Dim::x(1)], "stand in the order z, t, y, x"),
        ];
        for (dims, expected) in cases {
            let reason = incompatibility(&dims).expect("not an OME-Zarr image");
            assert!(reason.contains(expected), "{reason:?} lacks {expected:?}");
            assert!(reason.contains("2 to 5 dimensions"), "{reason:?} doesn't say what is possible");
        }
    }
}
