package shape

import (
	"log/slog"

	"sf2loki/pkg/fnmatch"
)

// Edit is what the rules made of one column.
type Edit struct {
	Text    []byte // when Changed
	Changed bool
	Dropped bool
}

// step is a rule for the rows of one header.
type step struct {
	*rule
	columns []int // of drop_row one for each pattern, -1: the rows have it not
}

// resolve finds the columns of the rules. Rules that cannot have an effect on
// these rows are left out.
func (t *Transforms) resolve(at map[string]int) []step {
	if t == nil {
		return nil
	}
	var steps []step
	for _, r := range t.rules {
		s := step{rule: r}
		able := true
		for i, field := range r.fields {
			column, ok := at[field]
			if ok {
				r.seen[i].Store(true)
			} else {
				column = -1
			}
			switch {
			case r.action == actionDropRow:
				able = able && (ok || r.patterns[i].Match(""))
				s.columns = append(s.columns, column)
			case ok:
				s.columns = append(s.columns, column)
			}
		}
		if able && len(s.columns) > 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

// Take begins a row and applies the rules to it. false: the row is dropped, and
// counted. The row must stay valid while its parts are asked for.
func (c *Columns) Take(row Cells) bool {
	c.row = row
	if len(c.steps) == 0 {
		return true
	}
	for _, i := range c.touched {
		c.edits[i] = Edit{}
	}
	c.touched, c.buf = c.touched[:0], c.buf[:0]
	for i := range c.steps {
		s := &c.steps[i]
		if s.action == actionDropRow {
			if c.fits(s) {
				s.filtered.Add(1)
				return false
			}
			continue
		}
		for _, column := range s.columns {
			c.edit(s.rule, column)
		}
	}
	return true
}

// fits tells whether every pattern of a rule fits its column.
func (c *Columns) fits(s *step) bool {
	for i, column := range s.columns {
		if !matchText(s.patterns[i], c.text(column)) {
			return false
		}
	}
	return true
}

func matchText(p fnmatch.Pattern, text []byte) bool { return p.Match(string(text)) }

// text is what a column holds after the rules so far; nil: nothing.
func (c *Columns) text(column int) []byte {
	if column < 0 {
		return nil
	}
	if len(c.touched) > 0 {
		switch e := &c.edits[column]; {
		case e.Dropped:
			return nil
		case e.Changed:
			return e.Text
		}
	}
	return c.row.Cell(column)
}

// edit applies one rule to one column that is there and not null.
func (c *Columns) edit(r *rule, column int) {
	text := c.text(column)
	if text == nil {
		return
	}
	e := &c.edits[column]
	if !e.Changed {
		c.touched = append(c.touched, column)
	}
	begin := len(c.buf)
	switch r.action {
	case actionDrop:
		*e = Edit{Dropped: true, Changed: true}
		return
	case actionHash:
		c.buf = appendHash(c.buf, r.salt, text)
	case actionMask:
		c.buf = appendMask(c.buf, text)
	case actionReplace:
		c.buf = append(c.buf, r.re.ReplaceAll(text, r.template)...)
	}
	e.Changed, e.Text = true, c.buf[begin:len(c.buf):len(c.buf)]
}

// Edits are what the rules made of the columns of the row, one for each; nil
// when the row is as it came.
func (c *Columns) Edits() []Edit {
	if len(c.touched) == 0 {
		return nil
	}
	return c.edits
}

// Text is the column of that name after the rules; nil when there is none.
func (c *Columns) Text(name string) []byte {
	if i, ok := c.at[name]; ok {
		return c.text(i)
	}
	return nil
}

// Missing is a column that something was to be done with and that no header
// has had.
type Missing struct{ What, Column string }

// Missing tells, once for each, of columns that rules and label columns name
// and that no rows have had. Before there were any rows there are none.
func (s *Shape) Missing() []Missing {
	if !s.resolved.Load() {
		return nil
	}
	var missing []Missing
	if s.cfg.Transforms != nil {
		for _, r := range s.cfg.Transforms.rules {
			for i, field := range r.fields {
				if !r.seen[i].Load() && !r.told[i].Swap(true) {
					missing = append(missing, Missing{"rule " + r.name, field})
				}
			}
		}
	}
	for i := range s.columns {
		if l := &s.columns[i]; !l.seen.Load() && !l.told.Swap(true) {
			missing = append(missing, Missing{"label column " + l.flag, l.name})
		}
	}
	return missing
}

// WarnMissing logs what is Missing.
func (s *Shape) WarnMissing(log *slog.Logger) {
	for _, m := range s.Missing() {
		log.Warn("nothing so far has a column of that name", "what", m.What, "column", m.Column)
	}
}

// Drops tells whether a rule drops the field from every row.
func (s *Shape) Drops(field string) bool { return s.cfg.Transforms.drops(field) }

// Filtered counts the rows that each rule has dropped, by the rule's name.
func (s *Shape) Filtered() map[string]int64 {
	counts := map[string]int64{}
	if s.cfg.Transforms != nil {
		for _, r := range s.cfg.Transforms.rules {
			if r.action == actionDropRow {
				counts[r.name] = r.filtered.Load()
			}
		}
	}
	return counts
}

// Rules tells whether there are any: then what has not been through them, a row
// that cannot be read for instance, must not leave the program.
func (s *Shape) Rules() bool { return s.cfg.Transforms.Active() }
