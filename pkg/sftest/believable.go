package sftest

import (
	"strings"
	"time"
)

// Believable describes the log of a busy org.
type Believable struct {
	Types   []string // empty: a usual handful
	Hours   int      // full hours before now
	Rows    int      // of each hour and type
	Seed    uint64
	Awkward int  // every so many rows one that is hard to read
	Poison  bool // some rows are such as a log store refuses
	Late    bool // every third hour has a second file that repeats some rows
	Daily   bool // each whole day that the hours reach into has its daily file too
}

// Manifest tells what an org was filled with.
type Manifest struct {
	URL      string         `json:"url"`
	OrgID    string         `json:"org_id"`
	Rows     int            `json:"rows"` // of hourly files, without repeats
	Repeated int            `json:"repeated"`
	ByType   map[string]int `json:"by_type"`
	Poison   map[string]int `json:"poison"` // too_old, too_new, long_line
	Files    []ManifestFile `json:"files"`
}

// ManifestFile is a file of a Manifest.
type ManifestFile struct {
	ID       string    `json:"id"`
	Type     string    `json:"event_type"`
	Interval string    `json:"interval"`
	LogDate  time.Time `json:"log_date"`
	Sequence int       `json:"sequence"`
	Rows     int       `json:"rows"`
	Bytes    int64     `json:"bytes"`
}

var usualTypes = []string{"Login", "API", "RestApi", "ApexCallout", "URI", "LightningError"}

// Fill makes the org's log of the last hours.
func (o *Org) Fill(b Believable) Manifest {
	types := b.Types
	if len(types) == 0 {
		types = usualTypes
	}
	m := Manifest{URL: o.URL, OrgID: o.ID, ByType: map[string]int{}, Poison: map[string]int{"too_old": 0, "too_new": 0, "long_line": 0}}
	now := o.Now()
	first := now.Truncate(time.Hour).Add(-time.Duration(b.Hours) * time.Hour)
	for n := range b.Hours {
		for _, t := range types {
			h := Hour{Type: t, Start: first.Add(time.Duration(n) * time.Hour), Rows: b.Rows, Seed: b.Seed, Awkward: b.Awkward}
			if b.Poison {
				h.Edit = poison(now)
				for i := range b.Rows {
					if kind := poisonOf(i); kind != "" {
						m.Poison[kind]++
					}
				}
			}
			o.fillHour(&m, h, b.Late && n%3 == 1)
			m.Rows += b.Rows
			m.ByType[t] += b.Rows
		}
	}
	if b.Daily {
		o.fillDays(&m, types, first, now)
	}
	return m
}

func (o *Org) fillHour(m *Manifest, h Hour, late bool) {
	note := func(rows int) func(*LogFile) {
		return func(f *LogFile) { m.note(f, rows) }
	}
	set := func(id string) { m.Files[len(m.Files)-1].ID = id }
	if !late {
		set(o.AddHour(h, note(h.Rows)))
		return
	}
	early, repeat := h, min(h.Rows/10, 5)
	early.Rows = h.Rows * 2 / 3
	set(o.AddHour(early, note(early.Rows)))
	h.Overlap = repeat
	set(o.AddHour(h, note(h.Rows-early.Rows+repeat), func(f *LogFile) {
		f.Created = o.usualCreation(*f).Add(2 * time.Minute)
	}))
	m.Repeated += repeat
}

func (o *Org) fillDays(m *Manifest, types []string, first, now time.Time) {
	for day := first.Truncate(24 * time.Hour); day.Add(24 * time.Hour).Before(now); day = day.Add(24 * time.Hour) {
		for _, t := range types {
			id := o.AddDay(t, day, func(f *LogFile) { m.note(f, -1) })
			m.Files[len(m.Files)-1].ID = id
		}
	}
}

func (m *Manifest) note(f *LogFile, rows int) {
	size := f.Length
	if size == 0 {
		size = int64(len(f.Body))
	}
	m.Files = append(m.Files, ManifestFile{Type: f.EventType, Interval: f.Interval, LogDate: f.LogDate, Sequence: f.Sequence, Rows: rows, Bytes: size})
}

// poisonOf says what is wrong with row i of a poisoned hour.
func poisonOf(i int) string {
	switch {
	case i%97 == 13:
		return "too_old"
	case i%97 == 41:
		return "too_new"
	case i%211 == 77:
		return "long_line"
	}
	return ""
}

// longCell is more than what log stores take as one line by default.
const longCell = 300 << 10

func poison(now time.Time) func(int, map[string]string) {
	stamp := func(cells map[string]string, at time.Time) {
		cells["TIMESTAMP"] = at.UTC().Format("20060102150405.000")
		cells["TIMESTAMP_DERIVED"] = at.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return func(i int, cells map[string]string) {
		switch poisonOf(i) {
		case "too_old":
			stamp(cells, now.Add(-9*24*time.Hour-time.Duration(i)*time.Second))
		case "too_new":
			stamp(cells, now.Add(48*time.Hour+time.Duration(i)*time.Second))
		case "long_line":
			for _, c := range []string{"QUERY", "STACK_TRACE", "URL", "URI", "SESSION_KEY"} {
				if _, ok := cells[c]; ok {
					cells[c] = strings.Repeat("0123456789abcdef", longCell/16)
					break
				}
			}
		}
	}
}
