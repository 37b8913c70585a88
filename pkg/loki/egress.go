package loki

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// EgressConfig caps what is sent. Bytes are bytes of lines.
type EgressConfig struct {
	LinesPerSecond int64 // 0: no cap
	BytesPerSecond int64
	DailyBytes     int64  // of one UTC day; 0: no cap
	Drop           bool   // what is over the daily cap is dropped; otherwise it waits for the next day
	File           string // where the day's count is kept, shared by processes; "": in memory
}

// daily counts the bytes of a UTC day. Several processes may share its file:
// each looks at the day by itself whenever it wants to send, so none of them
// depends on another's waking up.
type daily struct {
	cfg EgressConfig
	log *slog.Logger

	mu     sync.Mutex
	count  dayCount
	warned string // the day of which 80 % were announced
	broken bool   // the file's last use failed
}

// dayCount is what the file holds.
type dayCount struct {
	Date  string `json:"date"`
	Bytes int64  `json:"bytes"`
}

// dayCountStart is how such a file begins, even one that a crash has cut.
var dayCountStart = []byte(`{"date":"`)

// newDaily returns nil when there is no cap.
func newDaily(cfg EgressConfig, log *slog.Logger) (*daily, error) {
	if cfg.DailyBytes <= 0 {
		return nil, nil
	}
	d := &daily{cfg: cfg, log: log}
	if _, err := d.update(0); err != nil {
		return nil, sysexits.Wrap(sysexits.CantCreat, err)
	}
	return d, nil
}

// admit counts n bytes if they fit into the day, and tells else when the next
// day begins. A request that is larger than a whole day's budget passes on a
// day that has seen nothing yet.
func (d *daily) admit(n int64) (bool, time.Time) {
	if d == nil || n == 0 {
		return true, time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ok, err := d.update(n)
	if err != nil && !d.broken {
		d.log.Error("the daily budget is counted in memory only", "err", err)
	}
	d.broken = err != nil
	if ok && d.warned != d.count.Date && d.count.Bytes*5 >= d.cfg.DailyBytes*4 {
		d.warned = d.count.Date
		d.log.Warn("80 % of the daily budget are used", "bytes", d.count.Bytes, "budget", d.cfg.DailyBytes)
	}
	return ok, nextDay(time.Now())
}

// used is the day's count as this process last saw it.
func (d *daily) used() int64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count.Date != today() {
		return 0
	}
	return d.count.Bytes
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

func nextDay(t time.Time) time.Time {
	y, m, day := t.UTC().Date()
	return time.Date(y, m, day+1, 0, 0, 0, 0, time.UTC)
}

func (d *daily) add(n int64) bool {
	if date := today(); d.count.Date != date {
		d.count = dayCount{Date: date}
	}
	if d.count.Bytes > 0 && d.count.Bytes > d.cfg.DailyBytes-n {
		return false
	}
	d.count.Bytes += n
	return true
}

// update adds to the shared count under the file's lock.
func (d *daily) update(n int64) (bool, error) {
	if d.cfg.File == "" {
		return d.add(n), nil
	}
	f, _, err := atomicfile.Open(d.cfg.File, 0, 0o600)
	if err != nil {
		return d.add(n), fmt.Errorf("daily budget: %w", err)
	}
	defer f.Close() // and with it goes the lock
	if err := flock(f); err != nil {
		return d.add(n), fmt.Errorf("lock the daily budget %s: %w", d.cfg.File, err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return d.add(n), fmt.Errorf("daily budget: %w", err)
	}
	if len(data) > 0 && !bytes.HasPrefix(data, dayCountStart) {
		return d.add(n), sysexits.Errorf(sysexits.Config, "the file of the daily budget %s holds something else and is left as it is", d.cfg.File)
	}
	var have dayCount
	if json.Unmarshal(data, &have) == nil && have.Bytes >= 0 { // what is no count counts as none
		d.count = have
	}
	ok := d.add(n)
	if !ok || n == 0 {
		return ok, nil
	}
	text, err := json.Marshal(d.count)
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(text) + 1))
	}
	if err != nil {
		return ok, fmt.Errorf("write the daily budget: %w", err)
	}
	return ok, nil
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// overBudget takes in that a request does not fit into the day.
func (e *Engine) overBudget(r *request, until time.Time) {
	if !e.cfg.Egress.Drop {
		e.gate = max(e.gate, e.now()+min(time.Until(until), time.Minute))
		if !e.paused.Equal(until) {
			e.log.Error("the daily budget is used up: nothing is sent until the next day", "until", until.Format(time.RFC3339))
		}
		e.paused = until
		return
	}
	for _, i := range r.entries {
		r.batch.entries[i].fault = e.addFault(r.batch, fault{reason: record.Budget, stage: stageCheck, detail: "the daily budget was used up"})
		r.batch.decide(i, entryOverrun)
	}
	r.batch.notSpotless()
	e.popGroup(r.batch)
	if now := e.now(); now-e.budgetLogged >= time.Minute {
		e.budgetLogged = now
		e.log.Warn("entries are dropped: the daily budget is used up", "entries", len(r.entries))
	}
}
