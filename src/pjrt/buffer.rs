//! Device buffers: tensors in, tensors out.

use std::fmt;
use std::ptr;

use pjrt_sys::*;

use super::raw::{self, call};
use super::{Client, Device, Error, Result, element, layout};
use crate::tensor::{ElementType, Tensor};

pub struct Buffer {
    client: Client,
    raw: *mut PJRT_Buffer,
}

// SAFETY: the C API's functions on a buffer may be called from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as for Send: a buffer's deletion is the plug-in's to order against its other uses.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut args = PJRT_Buffer_Destroy_Args::new();
        args.buffer = self.raw;
        let _ = call!(self.client.plugin(), PJRT_Buffer_Destroy, args);
    }
}

impl Buffer {
    /// Takes over a handle that the plug-in returned.
    pub(super) fn own(client: &Client, raw: *mut PJRT_Buffer) -> Self {
        Self {
            client: client.clone(),
            raw,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn raw(&self) -> *mut PJRT_Buffer {
        self.raw
    }

    pub(super) fn from_host(client: &Client, tensor: &Tensor, device: &Device) -> Result<Self> {
        const CALL: &str = "PJRT_Client_BufferFromHostBuffer";
        let dims: Vec<i64> = tensor.shape().iter().map(|size| *size as i64).collect();
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        args.client = client.raw();
        args.data = tensor.data().as_ptr().cast();
        let minor = client.plugin().api_version().1;
        args.type_ = element::buffer_type(tensor.element_type(), minor)?;
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.host_buffer_semantics =
            PJRT_HostBufferSemantics_PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        args.device = device.raw();
        call!(client.plugin(), PJRT_Client_BufferFromHostBuffer, args)?;
        let buffer = raw::handle(CALL, args.buffer).map(|raw| Self::own(client, raw));
        // The tensor's memory is the caller's again when this returns: wait even if the buffer is bad.
        let done = client.plugin().wait(CALL, args.done_with_host_buffer);
        let buffer = buffer?;
        done?;
        Ok(buffer)
    }

    pub fn element_type(&self) -> Result<ElementType> {
        let mut args = PJRT_Buffer_ElementType_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_ElementType, args)?;
        element::element_type(args.type_)
    }

    /// The size of each dimension; for dynamic ones, their bound.
    pub fn dimensions(&self) -> Result<Vec<usize>> {
        const CALL: &str = "PJRT_Buffer_Dimensions";
        let mut args = PJRT_Buffer_Dimensions_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_Dimensions, args)?;
        // SAFETY: the array lives as long as the buffer.
        let dims = unsafe { raw::slice(CALL, args.dims, args.num_dims)? };
        dims.iter()
            .map(|size| {
                usize::try_from(*size).map_err(|_| Error::Malformed {
                    call: CALL,
                    what: format!("a dimension of size {size}"),
                })
            })
            .collect()
    }

    /// Copies to the host, row-major whatever the layout on the device, and waits for it.
    pub fn to_host(&self) -> Result<Tensor> {
        let element_type = self.element_type()?;
        let shape = self.dimensions()?;
        let elements = self.elements(&shape)?;
        let row_major: Vec<i64> = (0..shape.len() as i64).rev().collect();
        // XLA CPU 0.81 ignores the layout that it is asked for. So ask for the buffer's own, which is what it gives in any
        // case, and put the elements in order here.
        let layout = self.layout(shape.len());
        let layout = layout.as_ref().unwrap_or(&row_major);
        let data = self.copy_out(layout, element_type, elements)?;
        let data = match *layout == row_major {
            true => data,
            false => layout::to_row_major(&data, element_type.bytes(), &shape, layout),
        };
        Ok(Tensor::new(element_type, shape, data)?)
    }

    /// The dimensions on the device from the fastest varying to the slowest; `None` where the plug-in does not say.
    fn layout(&self, rank: usize) -> Option<Vec<i64>> {
        const CALL: &str = "PJRT_Buffer_GetMemoryLayout";
        let mut args = PJRT_Buffer_GetMemoryLayout_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_GetMemoryLayout, args).ok()?;
        if args.layout.type_ != PJRT_Buffer_MemoryLayout_Type_PJRT_Buffer_MemoryLayout_Type_Tiled {
            return None;
        }
        // SAFETY: the type says which field of the union the plug-in wrote, and the array lives as long as the buffer.
        let layout = unsafe {
            let tiled = args.layout.__bindgen_anon_1.tiled;
            raw::slice(CALL, tiled.minor_to_major, tiled.minor_to_major_size).ok()?
        };
        layout::is_permutation(layout, rank).then(|| layout.to_vec())
    }

    /// A tensor's bytes in the layout given, without tiles.
    fn copy_out(
        &self,
        minor_to_major: &[i64],
        element_type: ElementType,
        elements: usize,
    ) -> Result<Vec<u8>> {
        const CALL: &str = "PJRT_Buffer_ToHostBuffer";
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        layout.type_ = PJRT_Buffer_MemoryLayout_Type_PJRT_Buffer_MemoryLayout_Type_Tiled;
        layout.__bindgen_anon_1.tiled = PJRT_Buffer_MemoryLayout_Tiled {
            minor_to_major: minor_to_major.as_ptr(),
            minor_to_major_size: minor_to_major.len(),
            ..PJRT_Buffer_MemoryLayout_Tiled::new()
        };
        let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
        args.src = self.raw;
        args.host_layout = &raw mut layout;
        // Without room the plug-in tells the size.
        call!(self.client.plugin(), PJRT_Buffer_ToHostBuffer, args)?;
        if !element::is_host_size(element_type, elements, args.dst_size) {
            return Err(element::bad_size(
                CALL,
                element_type,
                elements,
                args.dst_size,
            ));
        }
        let mut data = raw::room(CALL, args.dst_size)?;
        if data.is_empty() {
            return Ok(data);
        }
        args.dst = data.as_mut_ptr().cast();
        args.event = ptr::null_mut();
        call!(self.client.plugin(), PJRT_Buffer_ToHostBuffer, args)?;
        self.client.plugin().wait(CALL, args.event)?;
        element::unpack(CALL, element_type, elements, data)
    }

    /// How many elements a shape has; a number whose bits cannot be counted is no shape of a buffer.
    fn elements(&self, shape: &[usize]) -> Result<usize> {
        const MOST: usize = usize::MAX / 128;
        if shape.contains(&0) {
            return Ok(0);
        }
        shape
            .iter()
            .try_fold(1usize, |product, size| product.checked_mul(*size))
            .filter(|elements| *elements <= MOST)
            .ok_or_else(|| Error::Malformed {
                call: "PJRT_Buffer_Dimensions",
                what: format!("the dimensions {shape:?}"),
            })
    }

    /// Waits until the buffer's contents are there; an error of what computes them comes out here.
    pub fn ready(&self) -> Result<()> {
        let mut args = PJRT_Buffer_ReadyEvent_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_ReadyEvent, args)?;
        self.client
            .plugin()
            .wait("PJRT_Buffer_ReadyEvent", args.event)
    }

    /// True after [`Buffer::delete`], and of an argument that an execution has taken over.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = PJRT_Buffer_IsDeleted_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_IsDeleted, args)?;
        Ok(args.is_deleted)
    }

    /// Frees the device's memory; the handle stays.
    pub fn delete(&self) -> Result<()> {
        let mut args = PJRT_Buffer_Delete_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_Delete, args)
    }

    pub fn on_device_size(&self) -> Result<usize> {
        let mut args = PJRT_Buffer_OnDeviceSizeInBytes_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_OnDeviceSizeInBytes, args)?;
        Ok(args.on_device_size_in_bytes)
    }

    pub fn device(&self) -> Result<Device> {
        let mut args = PJRT_Buffer_Device_Args::new();
        args.buffer = self.raw;
        call!(self.client.plugin(), PJRT_Buffer_Device, args)?;
        let device = raw::handle("PJRT_Buffer_Device", args.device)?;
        Ok(Device::of(&self.client, device))
    }

    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer> {
        self.client.expect_own(device.client(), "the device")?;
        let mut args = PJRT_Buffer_CopyToDevice_Args::new();
        args.buffer = self.raw;
        args.dst_device = device.raw();
        call!(self.client.plugin(), PJRT_Buffer_CopyToDevice, args)?;
        let buffer = raw::handle("PJRT_Buffer_CopyToDevice", args.dst_buffer)?;
        Ok(Buffer::own(&self.client, buffer))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.element_type(), self.dimensions()) {
            (Ok(element_type), Ok(dimensions)) => write!(f, "Buffer({element_type}{dimensions:?})"),
            _ => f.write_str("Buffer"),
        }
    }
}
