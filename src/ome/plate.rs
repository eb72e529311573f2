//! What OME-Zarr says of plates and their wells.
//!
//! Source: the OME-Zarr specifications 0.5 and 0.6, "plate" and "well".

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::versions::of_part;
use crate::config::{OmeVersion, Plate, PlateAcquisition};
use crate::error::{Error, Result};
use crate::json::put_known;
use crate::words::quoted;

/// An image of a well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) row: usize,
    pub(crate) column: usize,
    /// Its name in the well.
    pub(crate) name: String,
    pub(crate) acquisition: Option<u64>,
}

impl Field {
    /// The well's path.
    pub(crate) fn well(&self, plate: &Plate) -> String {
        format!("{}/{}", plate.rows[self.row], plate.columns[self.column])
    }
}

/// Refuses a plate of which OME-Zarr could not tell.
pub(crate) fn check(plate: &Plate) -> Result<()> {
    for (what, names) in [("plate.rows", &plate.rows), ("plate.columns", &plate.columns)] {
        if names.is_empty() {
            return Err(Error::config(what, "none", "a plate has at least one"));
        }
        let mut seen = BTreeSet::new();
        for name in names {
            if !is_plain(name) {
                let reason = "rows and columns are named with letters and digits: they are folders";
                return Err(Error::config(what, quoted(name), reason));
            }
            // Some file systems don't tell "a" from "A".
            if !seen.insert(name.to_ascii_lowercase()) {
                return Err(Error::config(what, quoted(name), "is there twice"));
            }
        }
    }
    if let Some(name) = plate.rows.iter().find(|name| name.eq_ignore_ascii_case("ome")) {
        return Err(Error::config("plate.rows", quoted(name), "the folder OME holds metadata"));
    }
    let mut ids = BTreeSet::new();
    match plate.acquisitions.iter().find(|acquisition| !ids.insert(acquisition.id)) {
        Some(twice) => Err(Error::config("plate.acquisitions", twice.id, "two acquisitions have this id")),
        None => Ok(()),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The field that an image's name means: `B/3/0` is in row B and column 3.
pub(crate) fn field(plate: &Plate, name: &str, acquisition: Option<u64>) -> Result<Field> {
    let refused = |reason: &str| Error::config("name", quoted(name), reason);
    let [row, column, field] = name.split('/').collect::<Vec<_>>()[..] else {
        return Err(refused("an image of a plate is named ROW/COLUMN/FIELD, as B/3/0"));
    };
    let place = |what: &str, names: &[String], wanted: &str| {
        let place = names.iter().position(|name| name == wanted);
        place.ok_or_else(|| refused(&format!("the plate's {what} are {}", names.join(", "))))
    };
    let (row, column) = (place("rows", &plate.rows, row)?, place("columns", &plate.columns, column)?);
    if !is_plain(field) {
        return Err(refused("a field of a well is named with letters and digits"));
    }
    Ok(Field { row, column, name: field.to_owned(), acquisition: of_acquisition(plate, acquisition)? })
}

/// The acquisition that an image is part of; the only one need not be said.
fn of_acquisition(plate: &Plate, said: Option<u64>) -> Result<Option<u64>> {
    let ids = || plate.acquisitions.iter().map(|acquisition| acquisition.id.to_string()).collect::<Vec<_>>().join(", ");
    let refuse = |id: u64, reason: String| Err(Error::config("plate_acquisition", id, reason));
    match (said, &plate.acquisitions[..]) {
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(only.id)),
        (None, _) => {
            let reason =
                format!("of a plate with several acquisitions, each image says which it is part of: {}", ids());
            Err(Error::config("plate_acquisition", "none", reason))
        }
        (Some(id), []) => refuse(id, "the plate names no acquisitions".to_owned()),
        (Some(id), all) if all.iter().any(|acquisition| acquisition.id == id) => Ok(Some(id)),
        (Some(id), _) => refuse(id, format!("those of the plate are {}", ids())),
    }
}

/// `attributes.ome.plate`, with the wells of these fields.
pub(crate) fn plate_attributes(version: OmeVersion, plate: &Plate, fields: &[&Field]) -> Value {
    let names = |names: &[String]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    let mut wells: BTreeMap<(usize, usize), Vec<&Field>> = BTreeMap::new();
    fields.iter().for_each(|field| wells.entry((field.row, field.column)).or_default().push(field));
    let well = |fields: &Vec<&Field>| {
        let Field { row, column, .. } = fields[0];
        json!({"path": fields[0].well(plate), "rowIndex": row, "columnIndex": column})
    };
    let mut said = json!({
        "rows": names(&plate.rows),
        "columns": names(&plate.columns),
        "wells": wells.values().map(well).collect::<Vec<_>>(),
    });
    let most = |id: u64| {
        let of = |fields: &Vec<&Field>| fields.iter().filter(|field| field.acquisition == Some(id)).count();
        wells.values().map(of).max().unwrap_or(0)
    };
    let acquisitions: Vec<_> = plate.acquisitions.iter().map(|of| acquisition(of, most(of.id))).collect();
    let more = [
        ("name", json!(plate.name)),
        ("field_count", json!(wells.values().map(Vec::len).max())),
        ("acquisitions", json!((!acquisitions.is_empty()).then_some(acquisitions))),
        ("version", json!(of_part(version))),
    ];
    put_known(&mut said, more);
    said
}

/// `most`: fields that it has in a well.
fn acquisition(of: &PlateAcquisition, most: usize) -> Value {
    let mut said = json!({"id": of.id});
    let more = [
        ("name", json!(of.name)),
        ("description", json!(of.description)),
        ("maximumfieldcount", json!((most > 0).then_some(most))),
        ("starttime", json!(of.start_time)),
        ("endtime", json!(of.end_time)),
    ];
    put_known(&mut said, more);
    said
}

/// `attributes.ome` of a well with these fields.
pub(crate) fn well_attributes(version: OmeVersion, fields: &[&Field]) -> Value {
    let image = |field: &&Field| {
        let mut image = json!({"path": field.name});
        put_known(&mut image, [("acquisition", json!(field.acquisition))]);
        image
    };
    let mut well = json!({"images": fields.iter().map(image).collect::<Vec<_>>()});
    put_known(&mut well, [("version", json!(of_part(version)))]);
    json!({"version": version, "well": well})
}

/// Lets a plate list those wells alone in which something is `left`, fields by the paths of wells.
#[cfg(feature = "offline")]
pub(crate) fn keep_fields(plate: &mut Value, left: &BTreeMap<String, Vec<Value>>) {
    let fields = |well: &Value| well["path"].as_str().and_then(|path| left.get(path));
    if let Some(wells) = plate["wells"].as_array_mut() {
        wells.retain(|well| fields(well).is_none_or(|fields| !fields.is_empty()));
    }
    let most = |counts: &dyn Fn(&Value) -> bool| {
        left.values().map(|fields| fields.iter().filter(|field| counts(field)).count()).max().unwrap_or(0)
    };
    plate["field_count"] = json!(most(&|_| true));
    for acquisition in plate.get_mut("acquisitions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(acquisition) = acquisition.as_object_mut() else { continue };
        let id = acquisition.get("id").cloned();
        match most(&|field| field.get("acquisition") == id.as_ref()) {
            0 => drop(acquisition.shift_remove("maximumfieldcount")),
            count => drop(acquisition.insert("maximumfieldcount".to_owned(), json!(count))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plate_tells_of_the_wells_that_have_fields() {
        let plate = Plate::new(2, 3).named("assay").acquisition(4, "before").acquisition(7, "after");
        let field = |name, id| field(&plate, name, Some(id)).unwrap();
        let fields = [field("B/3/1", 7), field("A/2/0", 4), field("B/3/0", 4)];
        let fields: Vec<_> = fields.iter().collect();
        assert_eq!(
            plate_attributes(OmeVersion::V0_5, &plate, &fields),
            json!({
                "rows": [{"name": "A"}, {"name": "B"}],
                "columns": [{"name": "1"}, {"name": "2"}, {"name": "3"}],
                "wells": [
                    {"path": "A/2", "rowIndex": 0, "columnIndex": 1},
                    {"path": "B/3", "rowIndex": 1, "columnIndex": 2},
                ],
                "name": "assay",
                "field_count": 2,
                "acquisitions": [
                    {"id": 4, "name": "before", "maximumfieldcount": 1},
                    {"id": 7, "name": "after", "maximumfieldcount": 1},
                ],
                "version": "0.5",
            })
        );
        let images = json!([{"path": "1", "acquisition": 7}, {"path": "0", "acquisition": 4}]);
        assert_eq!(well_attributes(OmeVersion::V0_5, &[fields[0], fields[2]])["well"]["images"], images);
    }

    #[test]
    fn what_is_no_place_on_the_plate_is_refused_with_those_that_are() {
        let plate = Plate::new(2, 3);
        let refused = |name: &str| field(&plate, name, None).unwrap_err().to_string();
        assert!(refused("A/1").contains("ROW/COLUMN/FIELD") && refused("A/1/0/0").contains("ROW/COLUMN/FIELD"));
        assert!(refused("C/1/0").contains("rows are A, B") && refused("a/1/0").contains("rows are A, B"));
        assert!(refused("A/01/0").contains("columns are 1, 2, 3"));
        assert!(refused("A/1/f_0").contains("letters and digits") && refused("A/1/").contains("letters and digits"));
        assert!(field(&plate, "A/1/0", Some(1)).unwrap_err().to_string().contains("no acquisitions"));
        let several = plate.clone().acquisition(1, "").acquisition(2, "");
        assert!(field(&several, "A/1/0", None).unwrap_err().to_string().contains("1, 2"));
        assert!(field(&several, "A/1/0", Some(3)).unwrap_err().to_string().contains("1, 2"));
        assert_eq!(field(&plate.clone().acquisition(9, ""), "A/1/0", None).unwrap().acquisition, Some(9));
    }

    #[test]
    fn what_ome_zarr_has_no_words_for_is_no_plate() {
        let refused = |change: fn(&mut Plate)| {
            let mut plate = Plate::new(2, 3);
            change(&mut plate);
            check(&plate).unwrap_err().to_string()
        };
        assert!(check(&Plate::new(8, 12)).is_ok());
        assert!(refused(|plate| plate.rows.clear()).contains("at least one"));
        assert!(refused(|plate| plate.columns[0] = "x-1".to_owned()).contains("letters and digits"));
        assert!(refused(|plate| plate.rows[1] = "a".to_owned()).contains("twice"));
        assert!(refused(|plate| plate.rows[1] = "Ome".to_owned()).contains("metadata"));
        assert!(refused(|plate| *plate = plate.clone().acquisition(1, "").acquisition(1, "")).contains("this id"));
    }

    #[test]
    #[cfg(feature = "offline")]
    fn a_plate_counts_what_is_left_of_its_wells() {
        let field = |path: &str, id: u64| json!({"path": path, "acquisition": id});
        let well = |path: &str| json!({"path": path});
        let mut plate = json!({
            "wells": [well("A/1"), well("A/2"), well("B/1")],
            "field_count": 3,
            "acquisitions": [{"id": 4, "maximumfieldcount": 2}, {"id": 7, "maximumfieldcount": 1}],
        });
        let left = [("A/1", vec![field("0", 4), field("1", 4)]), ("A/2", vec![]), ("B/1", vec![field("0", 4)])];
        keep_fields(&mut plate, &left.map(|(path, fields)| (path.to_owned(), fields)).into());
        let expected = json!({
            "wells": [well("A/1"), well("B/1")],
            "field_count": 2,
            "acquisitions": [{"id": 4, "maximumfieldcount": 2}, {"id": 7}],
        });
        assert_eq!(plate, expected);
    }
}
