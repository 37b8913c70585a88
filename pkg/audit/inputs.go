package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// elfSource is the source whose files are listed.
const elfSource = checkpoint.SourceELF

// file is a line of the listing.
type file struct {
	ID        string    `json:"id"`
	EventType string    `json:"event_type"`
	Interval  string    `json:"interval"`
	LogDate   time.Time `json:"log_date"`
	Created   time.Time `json:"created"`
	Bytes     int64     `json:"bytes"`
}

// span is the time of the events that the file may hold.
func (f *file) span() time.Duration {
	if f.Interval == "Daily" {
		return 24 * time.Hour
	}
	return time.Hour
}

// pass is one account of the ledger: one pass over a file, page or log.
type pass struct {
	Origin           string `json:"origin"`
	EventType        string `json:"event_type"`
	Interval         string `json:"interval"`
	LogDate          string `json:"log_date"`
	Bytes            int64  `json:"bytes"`
	Rows             int64  `json:"rows"`
	ResumedAfter     int64  `json:"resumed_after"`
	Filtered         int64  `json:"filtered"`
	SampledOut       int64  `json:"sampled_out"`
	SkippedDuplicate int64  `json:"skipped_duplicate"`
	DeadLettered     int64  `json:"dead_lettered"`
	SourceGaps       int64  `json:"source_gaps"`
	Delivered        int64  `json:"delivered"`
	Rejected         int64  `json:"rejected"`
	Dropped          int64  `json:"dropped"`

	run, key, source string
	at               time.Time
}

// loss is what a run had dropped of a key when it was last heard of, and no
// account tells of.
type loss struct {
	Dropped  int64     `json:"dropped"`
	TS       time.Time `json:"ts"`
	Position string    `json:"checkpoint_value"`

	run, key string
	at       time.Time
}

func (p *pass) leftOut() int64 { return p.Filtered + p.SampledOut + p.SkippedDuplicate }

// fates are what became of the rows of the pass: refused ones are dead letters
// of loki-push, and those that sf-pull wrote apart; missing ones have no fate.
// Letters that tell of gaps were rejected, too, and are no rows.
func (p *pass) fates() (refused, missing int64) {
	missing = max(p.Rows+p.SourceGaps-p.ResumedAfter-p.leftOut()-p.Delivered-p.Rejected-p.Dropped, 0)
	apart := min(missing, p.DeadLettered)
	return max(p.Rejected-p.SourceGaps, 0) + apart, missing - apart
}

// excess is how many more fates there are than rows.
func (p *pass) excess() int64 {
	return max(p.ResumedAfter+p.leftOut()+p.Delivered+p.Rejected+p.Dropped-p.Rows-p.SourceGaps, 0)
}

// lossy tells whether rows are without a fate that leads to Loki.
func (p *pass) lossy() bool {
	_, missing := p.fates()
	return missing > 0 || p.Dropped > 0
}

// undelivered orders passes over the same file.
func (p *pass) undelivered() int64 {
	refused, missing := p.fates()
	return refused + missing + p.Dropped
}

// copied is an entry that was refused, and the row that it was. Rows may be the
// same entry: a daily file has those of the hourly ones.
type copied struct{ entry, origin string }

// letter is one dead letter of the spools.
type letter struct {
	origin            string // the file or page of its row
	source, eventType string
	org               string // its label, if it has one
	at                int64
	status            spool.Status
	reason            record.Reason
}

// hourCount is a line of loki-push count.
type hourCount struct {
	Source    string    `json:"source"`
	EventType string    `json:"event_type"`
	Hour      time.Time `json:"hour"`
	Entries   int64     `json:"entries"`
}

// Inputs are what an audit joins.
type Inputs struct {
	Read []Input

	// Since and Until are the window of the audit, if it is known before the
	// ledgers are read: what else they tell is not kept then.
	Since, Until time.Time

	files    []file
	listed   map[string]bool
	passes   map[string][]pass // by origin
	covers   map[runKey]*cover
	lost     []loss
	letters  map[copied]*letter      // of each row once, however often it was captured
	fates    map[string]spool.Status // the best one of each entry
	hasSpool bool
	counts   []hourCount
	counted  bool
}

// NewInputs returns Inputs without anything.
func NewInputs() *Inputs {
	return &Inputs{listed: map[string]bool{}, passes: map[string][]pass{}, covers: map[runKey]*cover{}, letters: map[copied]*letter{}, fates: map[string]spool.Status{}}
}

// digest hashes what is read of an input.
type digest struct {
	Input
	sum hash.Hash
}

func newDigest(what, name string) *digest {
	return &digest{Input: Input{What: what, Name: name}, sum: sha256.New()}
}

func (d *digest) Write(p []byte) (int, error) {
	d.Bytes += int64(len(p))
	return d.sum.Write(p)
}

// done is the input when all of it has been read.
func (d *digest) done() Input {
	d.SHA256 = hex.EncodeToString(d.sum.Sum(nil))
	return d.Input
}

// reading hashes what it reads.
func (in *Inputs) reading(what, name string, r io.Reader, each func(line []byte) error) error {
	d := newDigest(what, name)
	lines := bufio.NewReaderSize(io.TeeReader(r, d), 64<<10)
	var line []byte
	for n := 1; ; n++ {
		var err error
		line, err = readLine(lines, line[:0])
		if errors.Is(err, errLongLine) {
			return sysexits.Errorf(sysexits.DataErr, "%s %s, line %d: %w", what, name, n, err)
		}
		if err == nil || what != ledgerName && len(bytes.TrimSpace(line)) > 0 {
			if eerr := each(bytes.TrimSpace(line)); eerr != nil {
				return fmt.Errorf("%s %s, line %d: %w", what, name, n, eerr)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("read the %s: %w", what, err))
		}
	}
	in.Read = append(in.Read, d.done())
	return nil
}

const ledgerName = "ledger"

// maxLine is more than an acknowledgement has, so more than a line of a ledger.
const maxLine = 33 << 20

var errLongLine = fmt.Errorf("more than %d MiB", maxLine>>20)

// readLine appends the next line to line.
func readLine(r *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return line, errLongLine
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Listing reads the output of sf-pull list.
func (in *Inputs) Listing(name string, r io.Reader) error {
	return in.reading("listing", name, r, func(line []byte) error {
		var f file
		if err := json.Unmarshal(line, &f); err != nil || f.ID == "" || f.LogDate.IsZero() {
			return sysexits.Errorf(sysexits.DataErr, "this is no file of sf-pull list: %.80q", line)
		}
		if !in.listed[f.ID] {
			in.listed[f.ID] = true
			in.files = append(in.files, f)
		}
		return nil
	})
}

// Files is how many files the listing has.
func (in *Inputs) Files() int { return len(in.files) }

// Ledger reads what ckpt commit --ledger wrote. The end of a line that a killed
// writer left behind is passed over: its account comes again.
func (in *Inputs) Ledger(name string, r io.Reader) error {
	return in.reading(ledgerName, name, r, func(line []byte) error {
		if len(line) == 0 {
			return nil
		}
		var l struct {
			V       int       `json:"v"`
			At      time.Time `json:"at"`
			RunID   string    `json:"run_id"`
			Key     string    `json:"checkpoint_key"`
			Account *pass     `json:"account"`
			Loss    *loss     `json:"loss"`
		}
		if err := json.Unmarshal(line, &l); err != nil || l.V < 1 {
			return sysexits.Errorf(sysexits.DataErr, "this is no line of a ledger: %.80q", line)
		}
		if l.V > checkpoint.LedgerVersion {
			return sysexits.Errorf(sysexits.Config, "version %d is newer than this release knows", l.V)
		}
		switch {
		case l.Account != nil:
			l.Account.source, l.Account.at = sourceOf(checkpoint.ParseKey(l.Key)), l.At
			l.Account.run, l.Account.key = l.RunID, l.Key
			in.cover(l.Account)
			if in.listed[l.Account.Origin] || (window{in.Since, in.Until}).concerns(l.Account) {
				in.passes[l.Account.Origin] = append(in.passes[l.Account.Origin], *l.Account)
			}
			in.supersede(l.RunID, l.Key, l.Account.Dropped)
		case l.Loss != nil:
			in.supersede(l.RunID, l.Key, l.Loss.Dropped)
			l.Loss.run, l.Loss.key, l.Loss.at = l.RunID, l.Key, l.At
			in.lost = append(in.lost, *l.Loss)
		}
		return nil
	})
}

// org is that of all passes, if they are of one.
func (in *Inputs) org() string {
	orgs := map[string]bool{}
	for _, passes := range in.passes {
		for i := range passes {
			orgs[passes[i].org()] = true
		}
	}
	for org := range orgs {
		if len(orgs) == 1 {
			return org
		}
	}
	return ""
}

// supersede forgets a loss that an account or a later line tells of. One that
// tells of fewer is of another run, whose id is the same.
func (in *Inputs) supersede(run, key string, dropped int64) {
	in.lost = slices.DeleteFunc(in.lost, func(l loss) bool { return l.run == run && l.key == key && l.Dropped <= dropped })
}

// sourceOf is the source label of the records of a key.
func sourceOf(key checkpoint.Key) string {
	if key.Source == checkpoint.SourceFile {
		return elfSource
	}
	return key.Source
}

// Spool reads the dead letters of directories.
func (in *Inputs) Spool(set *spool.Set) error {
	in.hasSpool = true
	for _, f := range set.Files {
		var read []*digest
		f.Through = func(path string, r io.Reader) io.Reader {
			d := newDigest("spool", path)
			read = append(read, d)
			return io.TeeReader(r, d)
		}
		if _, err := f.Read(func(l *spool.Letter, s spool.Status) error {
			if s != spool.Moved && l.Reason() != record.TruncatedCopy { // the entry of a copy was delivered
				in.letter(l, s)
			}
			return nil
		}, func(*spool.Damage) {}); err != nil {
			return err
		}
		for _, d := range read {
			in.Read = append(in.Read, d.done())
		}
	}
	for of, l := range in.letters {
		l.status = in.fates[of.entry]
	}
	return nil
}

func (in *Inputs) letter(l *spool.Letter, s spool.Status) {
	origin, _ := l.TopField("origin")
	of := copied{l.ID().String(), origin}
	gap := l.Reason() == record.SourceGap
	if gap {
		of.entry += origin // gaps have no line to tell them apart
	}
	if rank(s) > rank(in.fates[of.entry]) {
		in.fates[of.entry] = s
	}
	if in.letters[of] != nil {
		return
	}
	if i := strings.LastIndexByte(origin, ':'); i >= 0 && !gap {
		origin = origin[:i]
	}
	at, _ := l.Time()
	in.letters[of] = &letter{origin: origin, source: l.Label("source"), eventType: l.Label("event_type"), org: l.Label("org"), at: at, reason: l.Reason()}
}

// rank orders what became of copies of one entry: one that was delivered is
// enough.
func rank(s spool.Status) int {
	return slices.Index([]spool.Status{spool.New, spool.Pending, spool.Failed, spool.Discarded, spool.Replayed}, s)
}

// Counts reads the output of loki-push count.
func (in *Inputs) Counts(name string, r io.Reader) error {
	in.counted = true
	return in.reading("counts of Loki", name, r, func(line []byte) error {
		var c hourCount
		if err := json.Unmarshal(line, &c); err != nil || c.Hour.IsZero() {
			return sysexits.Errorf(sysexits.DataErr, "this is no line of loki-push count: %.80q", line)
		}
		in.counts = append(in.counts, c)
		return nil
	})
}
