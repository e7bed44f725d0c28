//! The template engine: minijinja with an error for what is undefined, and the functions that write StableHLO.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};

use super::document::Bindings;
use super::literal::literal;
use crate::tensor::ElementType;

/// Renders programs in their own element types, or with floats widened to f64.
pub fn environment<'source>(widened: bool) -> Environment<'source> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.add_function("ty", move |t: String| mlir(&t, widened));
    env.add_function("tensor", move |shape: Value, t: String| {
        let mut text = String::from("tensor<");
        for dimension in integers(&shape)? {
            text.push_str(&format!("{dimension}x"));
        }
        Ok::<_, Error>(text + mlir(&t, widened)? + ">")
    });
    env.add_function("lit", move |t: String, value: Value| {
        defined(&value)?;
        let text = match value.as_str() {
            Some(text) => text.to_owned(),
            None if value.kind() == minijinja::value::ValueKind::Seq => {
                format!(
                    "({},{})",
                    value.get_item_by_index(0)?,
                    value.get_item_by_index(1)?
                )
            }
            None => value.to_string(),
        };
        literal(element_type(&t)?, &text, widened).map_err(invalid)
    });
    env.add_function("dims", |list: Value| {
        Ok::<_, Error>(format!("[{}]", join(&integers(&list)?)))
    });
    env.add_function("i64s", |list: Value| {
        let list = integers(&list)?;
        Ok::<_, Error>(match list.is_empty() {
            true => "array<i64>".to_owned(),
            false => format!("array<i64: {}>", join(&list)),
        })
    });
    env.add_function("bools", |list: Value| {
        let list: Vec<bool> = list.try_iter()?.map(|item| item.is_true()).collect();
        Ok::<_, Error>(match list.is_empty() {
            true => "array<i1>".to_owned(),
            false => format!("array<i1: {}>", join(&list)),
        })
    });
    env.add_function("pairs", |list: Value| pairs(&list));
    env.add_function("prod", |list: Value| {
        let factors = integers(&list)?;
        factors
            .iter()
            .try_fold(1i64, |product, factor| product.checked_mul(*factor))
            .ok_or_else(|| invalid(format!("the product of {list} does not fit 64 bits")))
    });
    add_predicates(&mut env);
    env
}

fn add_predicates(env: &mut Environment<'_>) {
    let mut add = |name: &'static str, test: fn(ElementType) -> bool| {
        env.add_function(name, move |t: String| {
            Ok::<_, Error>(test(element_type(&t)?))
        });
    };
    add("is_float", ElementType::is_float);
    add("is_int", ElementType::is_integer);
    add("is_complex", ElementType::is_complex);
    add("is_signed", |t| {
        t.is_signed_integer() || t.is_float() || t.is_complex()
    });
    env.add_function("bits", |t: String| {
        Ok::<_, Error>(element_type(&t)?.bits() as u64)
    });
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

fn element_type(name: &str) -> Result<ElementType, Error> {
    parse_type(name).map_err(invalid)
}

pub fn parse_type(name: &str) -> Result<ElementType, String> {
    name.parse::<ElementType>()
        .map_err(|error| error.to_string())
}

fn mlir(name: &str, widened: bool) -> Result<&'static str, Error> {
    let element_type = element_type(name)?;
    Ok(match widened {
        true => element_type.widened().mlir(),
        false => element_type.mlir(),
    })
}

fn defined(value: &Value) -> Result<(), Error> {
    match value.is_undefined() {
        true => Err(invalid("an argument is undefined")),
        false => Ok(()),
    }
}

fn integers(list: &Value) -> Result<Vec<i64>, Error> {
    defined(list)?;
    list.try_iter()?
        .map(|item| {
            item.as_i64()
                .filter(|_| item.is_number())
                .ok_or_else(|| invalid(format!("{list} is not a list of integers")))
        })
        .collect()
}

fn join<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(", ")
}

/// `dense<[[0, 1], [2, 0]]> : tensor<2x2xi64>`: padding, replica groups.
fn pairs(list: &Value) -> Result<String, Error> {
    let rows: Vec<Vec<i64>> = list
        .try_iter()?
        .map(|row| integers(&row))
        .collect::<Result<_, _>>()?;
    let width = rows.first().map_or(2, Vec::len);
    let rows: Vec<String> = rows.iter().map(|row| format!("[{}]", join(row))).collect();
    let body = match rows.is_empty() {
        true => String::new(),
        false => format!("[{}]", rows.join(", ")),
    };
    Ok(format!(
        "dense<{body}> : tensor<{}x{width}xi64>",
        rows.len()
    ))
}

/// The bindings of a case as a template sees them.
pub fn context(bindings: &Bindings) -> Value {
    Value::from_pairs(
        bindings
            .iter()
            .map(|(name, value)| (name.clone(), jinja(value))),
    )
}

fn jinja(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(integer) => Value::from(*integer),
        toml::Value::Float(float) => Value::from(*float),
        toml::Value::Boolean(boolean) => Value::from(*boolean),
        toml::Value::Datetime(datetime) => Value::from(datetime.to_string()),
        toml::Value::Array(items) => Value::from(items.iter().map(jinja).collect::<Vec<_>>()),
        toml::Value::Table(table) => Value::from_pairs(
            table
                .iter()
                .map(|(name, value)| (name.clone(), jinja(value))),
        ),
    }
}

/// The inverse, for numbers, strings and lists of them.
pub fn plain(value: &Value) -> Option<toml::Value> {
    match value.kind() {
        ValueKind::Bool => Some(toml::Value::Boolean(value.is_true())),
        ValueKind::Number if value.is_integer() => value.as_i64().map(toml::Value::Integer),
        ValueKind::Number => f64::try_from(value.clone()).ok().map(toml::Value::Float),
        ValueKind::String => value
            .as_str()
            .map(|text| toml::Value::String(text.to_owned())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().ok()?.map(|item| plain(&item));
            items.collect::<Option<_>>().map(toml::Value::Array)
        }
        _ => None,
    }
}

/// What went wrong, and the line within the template if the engine knows it.
pub fn describe(error: &Error) -> (String, usize) {
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    (what, error.line().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_that_does_not_fit_is_an_error() {
        let render = |text: &str| environment(false).render_str(text, ());
        assert_eq!(
            render("{{ prod([4294967296, 2147483647]) }}").unwrap(),
            "9223372032559808512"
        );
        assert_eq!(render("{{ prod([]) }}").unwrap(), "1");
        let error = render("\n{{ prod([4294967296, 4294967296]) }}").unwrap_err();
        assert_eq!(
            describe(&error),
            (
                "the product of [4294967296, 4294967296] does not fit 64 bits".to_owned(),
                2
            )
        );
    }
}
