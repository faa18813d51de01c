//! Registers classes with the engine.
//!
//! `ext-php-rs` would do it by itself, but declares properties without types, knows no union types, leaves dynamic
//! properties on, and cannot leave a class out. So its traits say what a class consists of, and this says how it is
//! registered.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use ext_php_rs::args::ArgInfoTables;
use ext_php_rs::boxed::ZBox;
use ext_php_rs::builders::ClassBuilder;
use ext_php_rs::class::RegisteredClass;
use ext_php_rs::error::Result;
use ext_php_rs::ffi::{ext_php_rs_zend_object_alloc, zend_object_std_init, zend_type};
use ext_php_rs::flags::{ClassFlags, DataType, PropertyFlags};
use ext_php_rs::types::ZendClassObject;
use ext_php_rs::zend::{ClassEntry, ZendType};

use crate::engine;

/// `ZEND_ACC_READONLY`.
pub(crate) const READONLY: u32 = 1 << 7;

/// `MAY_BE_ARRAY` and `MAY_BE_OBJECT`, for [`widen`].
pub(crate) const OR_ARRAY: u32 = 1 << 7;
pub(crate) const OR_OBJECT: u32 = 1 << 8;

/// A class without a Rust value behind it. Set each time the module starts: a server may start it again within one
/// process, and the classes of the first time are gone then.
pub(crate) struct Slot {
    class: AtomicPtr<ClassEntry>,
    /// What the engine was told about the methods' arguments, and borrows for as long as there is the class.
    argument_infos: AtomicPtr<ArgInfoTables>,
}

impl Slot {
    pub(crate) const fn new() -> Self {
        Self { class: AtomicPtr::new(std::ptr::null_mut()), argument_infos: AtomicPtr::new(std::ptr::null_mut()) }
    }

    pub(crate) fn set(&self, class: &'static mut ClassEntry, argument_infos: ArgInfoTables) {
        self.class.store(class, Ordering::Release);
        let before = self.argument_infos.swap(Box::into_raw(Box::new(argument_infos)), Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: it came from the line above at an earlier start, whose class is gone.
            drop(unsafe { Box::from_raw(before) });
        }
    }

    pub(crate) fn get(&self) -> &'static ClassEntry {
        // SAFETY: the pointer is null, or a class that lives until the module shuts down.
        unsafe { self.class.load(Ordering::Acquire).as_ref() }.expect("the module has started")
    }

    /// The class, to be completed while the module starts.
    pub(crate) fn complete(&self, with: impl FnOnce(&mut ClassEntry)) {
        // SAFETY: the pointer is null, or a class that lives until the module shuts down. While the module starts
        // nothing else looks at it.
        if let Some(class) = unsafe { self.class.load(Ordering::Acquire).as_mut() } {
            with(class);
        }
    }
}

/// Registers a class, while the module starts.
pub(crate) fn register<T: RegisteredClass>() -> Result<()> {
    let mut builder = ClassBuilder::new(T::CLASS_NAME);
    for (method, flags) in T::method_builders() {
        builder = builder.method(method, flags);
    }
    for &interface in T::IMPLEMENTS {
        builder = builder.implements(interface);
    }
    builder
        .flags(ClassFlags::from_bits_retain((ClassFlags::Final | ClassFlags::NoDynamicProperties).bits()))
        .object_override::<T>()
        .registration(|class, argument_infos| {
            for property in T::get_metadata().all_properties() {
                let flags = PropertyFlags::Public.bits() | READONLY;
                engine::declare_property(class, property.name, flags, type_of(property.ty), None);
            }
            T::get_metadata().set_ce(class);
            T::get_metadata().set_arg_info(argument_infos);
        })
        .register()
}

/// A new object of a class whose properties are all computed.
///
/// What `ext-php-rs` does for any class, but the uninitialized properties are copied as a block: the engine's loop over
/// them costs a twentieth of a decision.
pub(crate) fn new_object<T: RegisteredClass>(value: T) -> ZBox<ZendClassObject<T>> {
    let metadata = T::get_metadata();
    let class = std::ptr::from_ref(metadata.ce()).cast_mut();
    // SAFETY: the class was registered by `register` for objects of this layout, the allocation has room for its
    // properties after the object, none of them holds anything that is counted, and every field is written before the
    // object is handed out. The engine ends the request instead of returning null.
    unsafe {
        let object = ext_php_rs_zend_object_alloc(size_of::<ZendClassObject<T>>(), class).cast::<ZendClassObject<T>>();
        zend_object_std_init(&raw mut (*object).std, class);
        let properties = usize::try_from((*class).default_properties_count).unwrap_or(0);
        let slots = (&raw mut (*object).std.properties_table).cast();
        std::ptr::copy_nonoverlapping((*class).default_properties_table, slots, properties);
        std::ptr::write(&raw mut (*object).obj, Some(value));
        (*object).std.handlers = metadata.handlers();
        ZBox::from_raw(object)
    }
}

/// Adds types to the declared one of a registered class's argument.
pub(crate) fn widen<T: RegisteredClass>(method: &CStr, argument: usize, types: u32) {
    engine::widen_argument(T::get_metadata().ce(), method, argument, types);
}

/// A simple type, for a property.
pub(crate) fn type_of(type_: DataType) -> zend_type {
    ZendType::empty_from_type(type_, false, false, false).expect("no class name with a NUL in it")
}

/// A final class with a Rust value behind it whose public properties are all read only, and computed when they are
/// read: `readonly_class!(Type, "Name", [interfaces], { property: Bool = |value, zval| …; })`.
macro_rules! readonly_class {
    ($class:ident, $name:literal, [$($interface:expr),*], { $($property:literal: $type:ident = $get:expr;)* }) => {
        impl ::ext_php_rs::class::RegisteredClass for $class {
            const CLASS_NAME: &'static str = $name;
            const BUILDER_MODIFIER: Option<fn(::ext_php_rs::builders::ClassBuilder) -> ::ext_php_rs::builders::ClassBuilder> =
                None;
            const EXTENDS: Option<::ext_php_rs::class::ClassEntryInfo> = None;
            const IMPLEMENTS: &'static [::ext_php_rs::class::ClassEntryInfo] = &[$($interface),*];

            fn get_metadata() -> &'static ::ext_php_rs::class::ClassMetadata<Self> {
                static PROPERTIES: &[::ext_php_rs::internal::property::PropertyDescriptor<$class>] = &[$(
                    ::ext_php_rs::internal::property::PropertyDescriptor {
                        name: $property,
                        get: Some($get),
                        set: Some(|_, _| Err($crate::exception::readonly(concat!($name, "::$", $property)))),
                        flags: ::ext_php_rs::flags::PropertyFlags::Public,
                        docs: &[],
                        ty: ::ext_php_rs::flags::DataType::$type,
                        nullable: false,
                        readonly: true,
                    }
                ),*];
                static METADATA: ::ext_php_rs::class::ClassMetadata<$class> =
                    ::ext_php_rs::class::ClassMetadata::new(PROPERTIES);
                &METADATA
            }

            fn method_builders() -> Vec<(::ext_php_rs::builders::FunctionBuilder<'static>, ::ext_php_rs::flags::MethodFlags)> {
                use ::ext_php_rs::internal::class::PhpClassImpl as _;
                ::ext_php_rs::internal::class::PhpClassImplCollector::<Self>::default().get_methods()
            }

            fn constructor() -> Option<::ext_php_rs::class::ConstructorMeta<Self>> {
                use ::ext_php_rs::internal::class::PhpClassImpl as _;
                ::ext_php_rs::internal::class::PhpClassImplCollector::<Self>::default().get_constructor()
            }

            fn constants() -> &'static [(
                &'static str,
                &'static dyn ::ext_php_rs::convert::IntoZvalDyn,
                ::ext_php_rs::describe::DocComments,
                ::ext_php_rs::flags::ConstantFlags,
            )] {
                &[]
            }

            fn clone_obj(&self) -> Option<Self> {
                Some(self.clone())
            }
        }

        ::ext_php_rs::class_derives!($class);
    };
}

pub(crate) use readonly_class;
