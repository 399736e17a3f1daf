//! Goals: what was missed, and whether it matters.

/// What was judged.
#[derive(Debug, Default)]
pub struct Goals {
    /// Rates need only reach this share of themselves; costs may exceed by as much. 1 unless the run is short.
    pub factor: f64,
    figures: Vec<String>,
    missed: Vec<String>,
}

impl Goals {
    /// None judged yet.
    pub fn new(factor: f64) -> Goals {
        Goals { factor, ..Goals::default() }
    }

    /// A figure that should be at least this. It depends on the machine, so a short run asks for less.
    pub fn rate(&mut self, name: &str, figure: f64, least: f64) {
        let least = least * self.factor;
        self.judge(name, figure, figure >= least, &format!("at least {}", number(least)));
    }

    /// A figure that should be at most this. It depends on the machine, so a short run allows more.
    pub fn cost(&mut self, name: &str, figure: f64, most: f64) {
        self.at_most(name, figure, most / self.factor);
    }

    /// A figure that should be at least this, on any machine.
    pub fn at_least(&mut self, name: &str, figure: f64, least: f64) {
        self.judge(name, figure, figure >= least, &format!("at least {}", number(least)));
    }

    /// A figure that should be at most this, on any machine.
    pub fn at_most(&mut self, name: &str, figure: f64, most: f64) {
        self.judge(name, figure, figure <= most, &format!("at most {}", number(most)));
    }

    fn judge(&mut self, name: &str, figure: f64, is_met: bool, wanted: &str) {
        self.figures.push(format!("{name} {}", number(figure)));
        if !is_met {
            self.missed.push(format!("{name} is {}, {wanted} wanted", number(figure)));
        }
    }

    /// Everything in one line.
    pub fn line(&self) -> String {
        self.figures.join("; ")
    }

    /// What was missed.
    pub fn missed(&self) -> &[String] {
        &self.missed
    }
}

fn number(figure: f64) -> String {
    if figure >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}
