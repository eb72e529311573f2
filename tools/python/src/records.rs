//! What a call says about frames beside their pixels.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};
use shardwright::{Acquisition, Config, FieldValue, Record};

use crate::errors::{OrRaise, frame_error, raised};
use shardwright::words::quoted;

/// The record fields of an acquisition.
pub(crate) struct Fields {
    places: HashMap<String, usize>,
}

/// Values of a call: of all its frames, or one for each.
enum Values {
    One(FieldValue),
    Each(Vec<FieldValue>),
}

/// The records of the frames of one call.
pub(crate) struct Records {
    base: Record,
    each: Vec<(Target, Vec<FieldValue>)>,
}

#[derive(Clone, Copy)]
enum Target {
    Field(usize),
    DeviceTimestamp,
    HostTimestamp,
}

impl Fields {
    pub(crate) fn new(config: &Config) -> Self {
        let names = config.record_fields.iter().enumerate();
        Self { places: names.map(|(place, field)| (field.name.clone(), place)).collect() }
    }

    /// Reads what a call says.
    pub(crate) fn records(
        &self,
        run: impl Fn() -> PyResult<Arc<Acquisition>>,
        device_timestamp: Option<&Bound<'_, PyAny>>,
        host_timestamp: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Records> {
        let mut records = Records { base: Record::default(), each: Vec::new() };
        if let Some(value) = device_timestamp {
            records.put(value.py(), "device_timestamp", Target::DeviceTimestamp, values("device_timestamp", value)?)?;
        }
        if let Some(value) = host_timestamp {
            records.put(value.py(), "host_timestamp", Target::HostTimestamp, values("host_timestamp", value)?)?;
        }
        for (name, value) in fields.into_iter().flatten() {
            let name: String = name.extract()?;
            let place = match self.places.get(&name) {
                Some(&place) => place,
                None => run()?.record_field(&name).or_raise(value.py())?,
            };
            records.put(value.py(), &name, Target::Field(place), values(&name, &value)?)?;
        }
        Ok(records)
    }
}

impl Records {
    fn put(&mut self, py: Python<'_>, name: &str, target: Target, values: Values) -> PyResult<()> {
        match values {
            Values::One(value) => set(&mut self.base, target, value).map_err(|reason| refused(py, name, reason)),
            Values::Each(values) => {
                let mut record = Record::default();
                values
                    .iter()
                    .try_for_each(|&value| set(&mut record, target, value))
                    .map_err(|reason| refused(py, name, reason))?;
                self.each.push((target, values));
                Ok(())
            }
        }
    }

    /// Whether all frames have the same record.
    pub(crate) fn are_same(&self) -> bool {
        self.each.is_empty()
    }

    pub(crate) fn base(&self) -> Record {
        self.base
    }

    /// Refuses lists that are not as long as there are frames, and values that do not fit their fields, before the
    /// first frame is taken.
    pub(crate) fn check(&self, py: Python<'_>, run: &Acquisition, frames: usize) -> PyResult<()> {
        if let Some((_, values)) = self.each.iter().find(|(_, values)| values.len() != frames) {
            let text =
                format!("{} values of a record field for {frames} frames: one for each, or one for all", values.len());
            return Err(frame_error(py, text));
        }
        let records = if self.are_same() { 1 } else { frames };
        (0..records).try_for_each(|frame| run.check_record(&self.of(frame))).or_raise(py)
    }

    pub(crate) fn of(&self, frame: usize) -> Record {
        let mut record = self.base;
        for (target, values) in &self.each {
            let outcome = set(&mut record, *target, values[frame]);
            debug_assert!(outcome.is_ok(), "`put` has tried it");
        }
        record
    }
}

fn set(record: &mut Record, target: Target, value: FieldValue) -> Result<(), &'static str> {
    match (target, value) {
        (Target::Field(place), value) => {
            record.set(place, value);
        }
        (Target::DeviceTimestamp, FieldValue::Int(value)) => {
            record.device_timestamp = Some(u64::try_from(value).map_err(|_| "a whole number from 0 on")?);
        }
        (Target::DeviceTimestamp, FieldValue::Uint(value)) => record.device_timestamp = Some(value),
        (Target::HostTimestamp, FieldValue::Int(value)) => record.host_timestamp = Some(value),
        _ => return Err("a whole number"),
    }
    Ok(())
}

fn refused(py: Python<'_>, name: &str, reason: &str) -> PyErr {
    raised(py, "RecordError", format!("record field {}: {reason} is needed", quoted(name)))
}

fn values(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Values> {
    if let Some(one) = number(value) {
        return Ok(Values::One(one));
    }
    let unreadable = || {
        let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let needed = match value.is_instance_of::<PyInt>() {
            true => "an integer of at most 64 bits is needed".to_owned(),
            false => format!(
                "a number is needed, or one for each frame; not {kind}. Text and the like belong to acq.attributes"
            ),
        };
        raised(value.py(), "RecordError", format!("record field {}: {needed}", quoted(name)))
    };
    // numpy's numbers, and its arrays.
    if let Ok(item) = value.call_method0("tolist") {
        if let Some(one) = number(&item) {
            return Ok(Values::One(one));
        }
        return list(&item).ok_or_else(unreadable);
    }
    list(value).ok_or_else(unreadable)
}

fn list(value: &Bound<'_, PyAny>) -> Option<Values> {
    let items: Vec<Bound<'_, PyAny>> = value.extract().ok()?;
    items.iter().map(number).collect::<Option<Vec<_>>>().map(Values::Each)
}

fn number(value: &Bound<'_, PyAny>) -> Option<FieldValue> {
    if value.is_instance_of::<PyFloat>() {
        return value.extract::<f64>().ok().map(FieldValue::Float);
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        let signed = value.extract::<i64>().ok().map(FieldValue::Int);
        return signed.or_else(|| value.extract::<u64>().ok().map(FieldValue::Uint));
    }
    None
}
