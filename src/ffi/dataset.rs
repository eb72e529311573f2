//! Several images in one dataset.
#![allow(unsafe_code)]

use std::ffi::c_char;

use super::config::convert::{configuration, from_json};
use super::config::sw_config;
use super::handle::Registry;
use super::own_buffers::own_buffers;
use super::pointer::{out, text};
use super::registry::sw_acquisition;
use super::run::{path, start};
use super::status::{SW_ERROR_ARGUMENT, boundary, refuse, sw_status};
use super::storage::{caller_storage, sw_storage};
use crate::Dataset;
use crate::config::Plate;

/// A dataset of several images that are acquired at the same time: two cameras, several positions. Its calls may come
/// from any thread.
pub struct sw_dataset(());

/// Datasets that may exist at once in a process.
const DATASETS_MAX: usize = 256;

pub(super) static DATASETS: Registry<Dataset, DATASETS_MAX> = Registry::new(0b1011, "dataset");

/// Creates the dataset `path` (see sw_create) for several images. `overwrite` 1: a dataset that is in the way is
/// replaced; anything else never is, nor what is a part of a hierarchy of Zarr nodes (see `overwrite` of sw_config).
/// Free the handle with sw_dataset_free.
///
/// Errors: SW_ERROR_EXISTS for a dataset that is not to be replaced; SW_ERROR_FORMAT for a path at which something
/// stands that is no dataset; SW_ERROR_LOCKED while a dataset there is being written; SW_ERROR_IO, SW_ERROR_TOO_MANY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_dataset_create(
    path: *const c_char,
    overwrite: u32,
    dataset: *mut *mut sw_dataset,
) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let (path, dataset) = unsafe { (self::path(path)?, out(dataset, "dataset")?) };
        if overwrite > 1 {
            return refuse!(SW_ERROR_ARGUMENT, "overwrite = {overwrite}: 0 or 1");
        }
        let room = DATASETS.room()?;
        let created = if overwrite == 1 { Dataset::create_or_replace(path)? } else { Dataset::create(path)? };
        dataset.set(room.fill(created));
        Ok(())
    })
}

/// As sw_dataset_create, in a storage of the caller's own, whose struct is copied; its functions and its context must
/// stay until the dataset and all its acquisitions are freed.
///
/// Errors: SW_ERROR_NULL for a function that is required; SW_ERROR_EXISTS if its `is_used` says that there is something
/// in it; SW_ERROR_IO if one of its functions fails; SW_ERROR_TOO_MANY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_dataset_create_in(storage: *const sw_storage, dataset: *mut *mut sw_dataset) -> sw_status {
    boundary(|| {
        // SAFETY: as the caller promises, which is what the header says.
        let (storage, dataset) = unsafe { (caller_storage(storage)?, out(dataset, "dataset")?) };
        let room = DATASETS.room()?;
        dataset.set(room.fill(Dataset::create_in(storage)?));
        Ok(())
    })
}

/// Makes the dataset a plate, before its first image: from then on, images are fields of wells and named
/// ROW/COLUMN/FIELD, as B/3/0, in whatever order the wells are visited. `plate`: a JSON document, as
/// {"name": "assay", "rows": ["A", "B"], "columns": ["1", "2", "3"]}; with several acquisitions also
/// "acquisitions": [{"id": 1, "name": "before"}, {"id": 2}], of which sw_config.plate_acquisition says an image's. The
/// plate lists the wells whose images have begun; a field to which nothing came is taken back when its run ends.
///
/// Errors: SW_ERROR_CONFIG for a text that is no such document, for names that are there twice or are no letters and
/// digits, after the first image, and for a second plate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_dataset_plate(dataset: *mut sw_dataset, plate: *const c_char) -> sw_status {
    boundary(|| {
        let dataset = DATASETS.enter(dataset)?;
        // SAFETY: as the caller promises, which is what the header says.
        let plate: Plate = from_json(unsafe { text(plate, "plate") }?, "plate")?;
        Dataset::clone(&dataset).with_plate(plate)?;
        Ok(())
    })
}

/// Starts the acquisition of one image of the dataset: a group of its own, `name`, of letters, digits, _, - and dots;
/// on a plate, its place there; for labels of an image that has begun, IMAGE/labels/NAME.
///
/// Errors: as sw_create; SW_ERROR_EXISTS if there is an image of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sw_dataset_acquisition(
    dataset: *mut sw_dataset,
    name: *const c_char,
    config: *const sw_config,
    acquisition: *mut *mut sw_acquisition,
) -> sw_status {
    boundary(|| {
        let dataset = DATASETS.enter(dataset)?;
        // SAFETY: as the caller promises, which is what the header says.
        let (name, own, requested) = unsafe { (text(name, "name")?, own_buffers(config)?, configuration(config)?) };
        // SAFETY: as above.
        unsafe { start(requested, own, acquisition, |config, buffers| dataset.start(name, config, buffers)) }
    })
}

/// Gives the handle back. Acquisitions of the dataset go on; the dataset is unlocked when the last of them is freed.
/// One in which no image was finished or got a frame disappears; without a frame, also with sw_finish, one that it was
/// to replace is back.
///
/// Errors: SW_ERROR_BUSY if another thread is in a call with the handle, which stays good then.
#[unsafe(no_mangle)]
pub extern "C" fn sw_dataset_free(dataset: *mut sw_dataset) -> sw_status {
    boundary(|| DATASETS.remove(dataset, |_| Ok(())).map(drop))
}
