package sftest

import (
	"bytes"
	"io"
	"strings"
	"time"
)

// LogFile is an EventLogFile with its content.
type LogFile struct {
	ID        string // empty: a new one
	EventType string
	Interval  string    // Hourly or Daily; empty: Hourly
	LogDate   time.Time // the hour or the day
	Created   time.Time // zero: three hours after the hour or day, or ten minutes ago when that is earlier
	Visible   time.Time // when it can first be seen; zero: at once
	Sequence  int       // as given
	Length    int64     // LogFileLength; 0: that of the content
	Body      []byte
	Write     func(w io.Writer) error // instead of Body; needs Length
	Gone      bool                    // can be listed, but not downloaded
}

// AddLogFile adds a file and returns its id.
func (o *Org) AddLogFile(f LogFile) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.addLogFile(f)
}

func (o *Org) addLogFile(f LogFile) string {
	f.Interval = or(f.Interval, "Hourly")
	if f.Created.IsZero() {
		f.Created = o.usualCreation(f)
	}
	if f.Length == 0 {
		f.Length = int64(len(f.Body))
	}
	header, _, _ := bytes.Cut(f.Body, []byte("\n"))
	fields := strings.ReplaceAll(string(header[:min(len(header), 1<<14)]), `"`, "")
	row := Row{
		"EventType": f.EventType, "Interval": f.Interval, "Sequence": f.Sequence, "LogDate": f.LogDate,
		"LogFileLength": float64(f.Length), "LogFileContentType": "application/octetstream", "ApiVersion": 62.0,
		"LogFile": Blob{Bytes: f.Body, Write: f.Write, Gone: f.Gone}, "IsDeleted": false,
		"CreatedDate": f.Created.Truncate(time.Second), "SystemModstamp": f.Created.Truncate(time.Second),
		"LastModifiedDate": f.Created.Truncate(time.Second), "CreatedById": ID18(o.UserID[:15]),
		// Both are cut off in real orgs too, for types with many columns.
		"LogFileFieldNames": fields[:min(len(fields), 1333)],
		"LogFileFieldTypes": strings.Repeat("String,", strings.Count(fields, ",")) + "String",
	}
	if f.ID != "" {
		row["Id"] = f.ID
	}
	if !f.Visible.IsZero() {
		row[VisibleAt] = f.Visible
	}
	if o.cfg.NoHourly {
		delete(row, "Interval")
		delete(row, "Sequence")
	}
	return o.insert("EventLogFile", row)[0]
}

func (o *Org) usualCreation(f LogFile) time.Time {
	usual := f.LogDate.Add(time.Hour + 3*time.Hour + 7*time.Minute + 21*time.Second)
	if f.Interval == "Daily" {
		usual = f.LogDate.Add(27*time.Hour + 10*time.Minute)
	}
	if recent := o.now().Add(-10 * time.Minute); usual.After(recent) {
		return recent
	}
	return usual
}

// published is an hour whose rows are known, and how many of them hourly files
// have brought so far.
type published struct {
	Hour
	sent, files int
}

// heldRows is the size from which a file is made anew for each download instead of
// being kept in memory.
const heldRows = 20_000

// AddHour publishes an hour's rows as an Hourly file, Sequence 1. Called again
// for the same type and start with more rows, it publishes the late ones as the
// next Sequence, repeating the last Overlap. change, if given, has the last
// word on the file.
func (o *Org) AddHour(h Hour, change ...func(*LogFile)) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.publish(h)
	h = p.Hour
	from := max(p.sent-h.Overlap, 0)
	p.sent, p.files = h.Rows, p.files+1
	f := LogFile{EventType: h.Type, Interval: "Hourly", LogDate: h.Start.UTC().Truncate(time.Hour), Sequence: p.files}
	f.fill(func(w io.Writer) error { return h.Write(w, from, h.Rows) }, h.Rows-from)
	for _, c := range change {
		c(&f)
	}
	return o.addLogFile(f)
}

// publish finds what is known of an hour, or begins it. The caller holds mu.
func (o *Org) publish(h Hour) *published {
	for _, p := range o.hours {
		if p.Type == h.Type && p.Start.Equal(h.Start) {
			h.Step = p.Step // what has been published stays as it was
			p.Hour = h
			return p
		}
	}
	h.Step = h.step()
	p := &published{Hour: h}
	o.hours = append(o.hours, p)
	return p
}

// Know tells of an hour's rows without publishing a file: AddDay has them.
func (o *Org) Know(h Hour) { o.locked(func() { o.publish(h) }) }

// AddDay publishes all rows of a type and day that AddHour or Know have been
// given, as a Daily file. Called again, it publishes the whole day anew, as an
// org does when rows came late.
func (o *Org) AddDay(eventType string, day time.Time, change ...func(*LogFile)) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	day = day.UTC().Truncate(24 * time.Hour)
	var hours []Hour
	rows := 0
	for _, p := range o.hours {
		if p.Type == eventType && !p.Start.Before(day) && p.Start.Before(day.Add(24*time.Hour)) {
			hours = append(hours, p.Hour)
			rows += p.Rows
		}
	}
	f := LogFile{EventType: eventType, Interval: "Daily", LogDate: day}
	f.fill(func(w io.Writer) error {
		for i, h := range hours {
			if err := h.write(w, 0, h.Rows, i == 0); err != nil {
				return err
			}
		}
		return nil
	}, rows)
	for _, c := range change {
		c(&f)
	}
	return o.addLogFile(f)
}

// fill gives the file its content, held in memory unless it is large.
func (f *LogFile) fill(write func(io.Writer) error, rows int) {
	if rows <= heldRows {
		var b bytes.Buffer
		write(&b)
		f.Body = b.Bytes()
		return
	}
	var n counter
	write(&n)
	f.Write, f.Length = write, int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// LogFileBody gives the content of a file, as a download of it would.
func (o *Org) LogFileBody(id string) []byte {
	o.mu.Lock()
	row := o.find("EventLogFile", id)
	b, _ := row["LogFile"].(Blob)
	o.mu.Unlock()
	if b.Write == nil {
		return b.Bytes
	}
	var out bytes.Buffer
	b.Write(&out)
	return out.Bytes()
}

// Purge makes a file's download answer 404 while it is still listed.
func (o *Org) Purge(id string) {
	o.locked(func() {
		if row := o.find("EventLogFile", id); row != nil {
			row["LogFile"] = Blob{Gone: true}
		}
	})
}
