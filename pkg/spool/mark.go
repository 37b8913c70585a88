package spool

// Mark says what a person decides about records without sending them.
type Mark struct {
	To      Status // New or Discarded
	Because string // kept in the journal; at most MaxBecause bytes
	Take    func(l *Letter, s Status) bool
	Marked  func() // what was taken has its new status, durably
}

// MaxBecause bounds what a journal keeps of somebody's reason.
const MaxBecause = 1000

// Mark gives records of the files that were asked for another status, and
// returns how many. A file named .replayed takes its old name back when
// something is left to do in it again.
func (c *Claim) Mark(m Mark, damaged func(*Damage)) (marked int64, err error) {
	for _, f := range c.files {
		if !f.wanted {
			continue
		}
		n, err := c.markFile(f, m, damaged)
		marked += n
		if err != nil {
			return marked, err
		}
	}
	return marked, nil
}

func (c *Claim) markFile(f *claimed, m Mark, damaged func(*Damage)) (int64, error) {
	var entries, implied []entry
	f.records, f.left = 0, 0
	err := f.each(func(l *Letter, s Status) error {
		f.records++
		at := place{l.Line, l.ID()}
		if f.file.kind.replayed && f.known.of[at].status == "" {
			implied = append(implied, entry{line: at.line, id: at.id, fate: s})
		}
		if s != m.To && m.Take(l, s) {
			entries = append(entries, entry{line: at.line, id: at.id, fate: m.To, because: m.Because})
			s = m.To
		}
		if !s.final() {
			f.left++
		}
		return nil
	}, func(d *Damage) {
		f.damaged = f.damaged || !d.Torn
		damaged(d)
	})
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	f.taken = true
	if f.left > 0 && f.file.kind.replayed {
		// What only the name said has to be written down before the name goes,
		// and what is to be done again after that: whenever this is cut short,
		// nothing is sent that nobody asked for.
		if err := c.noteAll(f, implied); err != nil {
			return 0, err
		}
		if err := c.reopen(f); err != nil {
			return 0, err
		}
	}
	if err := c.noteAll(f, entries); err != nil {
		return 0, err
	}
	if m.Marked != nil {
		m.Marked()
	}
	return int64(len(entries)), nil
}

// noteAll makes the entries durable.
func (c *Claim) noteAll(f *claimed, entries []entry) error {
	for i := range entries {
		if err := f.note(c, &entries[i]); err != nil {
			return err
		}
	}
	return c.Commit()
}
