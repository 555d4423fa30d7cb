//! Reads `vectors.txt`: names in brackets, `field = meaning`, lines of hex. Test support.

pub struct Vector {
    pub name: String,
    pub meaning: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

pub fn all() -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in include_str!("vectors.txt").lines() {
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            vectors.push(Vector { name: name.into(), meaning: Vec::new(), bytes: Vec::new() });
            continue;
        }
        let vector = vectors.last_mut().expect("a name comes first");
        match line.strip_prefix("hex ") {
            Some(hex) => vector.bytes.extend((0..hex.len() / 2).map(|at| {
                u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal digits")
            })),
            None => {
                let (field, value) = line.split_once(" = ").expect("field = meaning");
                vector.meaning.push((field.into(), value.into()));
            }
        }
    }
    vectors
}
