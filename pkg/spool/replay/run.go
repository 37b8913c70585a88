package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// Config is one replay.
type Config struct {
	Options
	Set     *spool.Set
	Command []string
	Env     []string // of the command
	Stderr  *os.File
	Delete  bool          // remove what is done with instead of renaming it
	Grace   time.Duration // for the command, once we were asked to stop
	RunID   string
	Program string
	Log     *slog.Logger

	// Watch, if set, gets a function that tells how far the run is.
	Watch func(snapshot func() Result)

	patience time.Duration // defaultPatience when 0
}

// defaultPatience is how long a command's pipes may stay open after it has
// ended, for a process that it left behind may hold them for ever; and how long
// it may take to end after a TERM.
const defaultPatience = 5 * time.Second

// Result is what became of the records.
type Result struct {
	Counts
	Replayed int64 `json:"replayed"`
	Failed   int64 `json:"failed"`
	Returned int64 `json:"returned"` // sent, but nothing certain came back; they are what they were

	Stray       int64            `json:"stray"` // dead letters that came for none of them
	InUse       int64            `json:"in_use"`
	FailedFor   map[string]int64 `json:"failed_for,omitempty"`
	FailedFiles []string         `json:"failed_files,omitempty"`
	Stopped     bool             `json:"stopped"`

	Accounts []Account `json:"-"` // by source and event type

	// Damage is the worst place of a file that held no record.
	Damage *spool.Damage `json:"-"`
}

// group is a claim with what is under way of it.
type group struct {
	claim *spool.Claim
	key   string
	sent  []int // indices, in sending order, of items that no ack has covered

	total    int64 // items sent
	answered int64 // delivered or refused, by the acks
	dropped  int64
}

// item is a record of this run. Its number, from 1, is its checkpoint value.
type item struct {
	spool.Item
	group    *group
	state    state
	account  uint16 // its number
	refusals int64  // dead letters of it, more than one when the command cut it up
}

type state uint8

const (
	waiting  state = iota
	sent           // nobody has said anything yet
	unsure         // covered by an ack that does not account for all it covers
	unfunded       // not sent on for want of budget
	replayed
	failed
)

// run is a replay under way. mu guards the claims, the items' states and the
// result; the fields above it are set before anything starts.
type run struct {
	Config
	groups []*group
	byKey  map[string]*group
	items  []item

	mu       sync.Mutex
	result   Result
	accounts accounts
	broken   bool // by a failure of our own
	crowded  bool // more groups than can be open at once: counted as in use
}

// Run replays. The error, if any, bears the exit status.
func Run(ctx context.Context, cfg Config) (Result, error) {
	r := &run{Config: cfg, byKey: map[string]*group{}}
	r.patience = cmp.Or(cfg.patience, defaultPatience)
	r.result.FailedFor = map[string]int64{}
	err := r.plan()
	r.broken = err != nil
	if r.Watch != nil {
		r.Watch(r.snapshot)
	}
	if err == nil && len(r.items) > 0 && ctx.Err() == nil {
		err = r.replay(ctx)
	}
	r.giveBack()
	r.result.Stopped = ctx.Err() != nil
	if ferr := r.finishAll(); err == nil {
		err = ferr
	}
	if err == nil {
		err = r.verdict()
	}
	return r.snapshot(), err
}

// finishAll gives all groups back. After a failure of our own they keep their
// names: what was counted may not be what is on the disk. After one of the
// command, what was committed counts.
func (r *run) finishAll() error {
	var failure error
	for _, g := range r.groups {
		if r.broken {
			g.claim.Release()
		} else {
			failure = errors.Join(failure, r.finish(g))
		}
	}
	return failure
}

// snapshot is how far the run is.
func (r *run) snapshot() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := r.result
	res.FailedFor, res.FailedFiles = maps.Clone(res.FailedFor), slices.Clone(res.FailedFiles)
	res.Accounts = slices.Clone(r.accounts.list)
	return res
}

// plan claims the files and lists what is to be sent, in order.
func (r *run) plan() error {
	limit := fileLimit()
	var busy [][]*spool.File
	for _, files := range r.Set.Groups() {
		if r.nothingLeft(files) {
			continue
		}
		if len(r.groups) >= limit {
			r.crowded = true
			busy = append(busy, files)
			continue
		}
		claim, err := spool.TakeGroup(files, r.RunID, r.Now, r.Log)
		if errors.Is(err, spool.ErrInUse) {
			busy = append(busy, files)
			continue
		}
		var d *spool.Damage
		if errors.As(err, &d) {
			r.damaged(d)
			continue
		}
		if err != nil {
			return err
		}
		if err := r.index(claim); err != nil {
			return err
		}
	}
	r.sort()
	r.cut()
	r.result.Send = int64(len(r.items))
	if err := r.letGo(); err != nil {
		return err
	}
	return r.countBusy(busy)
}

// cut takes back the selection of what is beyond the limit.
func (r *run) cut() {
	if r.Limit == 0 || len(r.items) <= r.Limit {
		return
	}
	for i := r.Limit; i < len(r.items); i++ {
		acc := r.accountOf(&r.items[i])
		acc.Selected--
		acc.Waiting--
	}
	r.items = r.items[:r.Limit]
}

// nothingLeft tells a group of which only such files are there that hold nothing
// to be sent.
func (r *run) nothingLeft(files []*spool.File) bool {
	for _, s := range []spool.Status{spool.Replayed, spool.Discarded} {
		if slices.Contains(r.Selection.Statuses, s) {
			return false
		}
	}
	return !slices.ContainsFunc(files, func(f *spool.File) bool { return !f.Replayed() })
}

// letGo gives back the groups of which nothing is sent, so that others can have
// them meanwhile.
func (r *run) letGo() error {
	busy := map[*group]bool{}
	for _, it := range r.items {
		busy[it.group] = true
	}
	kept := r.groups[:0]
	var failure error
	for _, g := range r.groups {
		if busy[g] {
			kept = append(kept, g)
			continue
		}
		failure = errors.Join(failure, r.finish(g))
		delete(r.byKey, g.key)
	}
	r.groups = kept
	return failure
}

// finish names the files of a group for what they are now, and gives it back.
func (r *run) finish(g *group) error {
	defer g.claim.Release()
	return g.claim.Finish(r.Delete)
}

// fileLimit is how many groups may be claimed at once: each takes up to four
// descriptors.
func fileLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 200
	}
	return int(max(1, (min(limit.Cur, 1<<20)-min(limit.Cur/2, 64))/4))
}

func (r *run) index(claim *spool.Claim) error {
	g := &group{claim: claim, key: "deadletter:" + claim.Base()}
	if r.byKey[g.key] != nil { // the same name in two directories
		g.key = "deadletter:" + claim.Path()
	}
	r.groups = append(r.groups, g)
	r.byKey[g.key] = g
	var of []uint16 // the account of each item
	items, err := claim.Index(func(l *spool.Letter, s spool.Status) bool {
		v := r.Judge(l, s)
		if v == Other {
			return false
		}
		n := r.accounts.number(l)
		r.accounts.list[n].judged(v)
		r.result.Counts.add(v)
		if v == Send {
			of = append(of, n)
		}
		return v == Send
	}, r.damaged)
	if err != nil { // what was listed stays what it was
		for _, n := range of {
			r.giveOneBack(n)
		}
		return err
	}
	for i, it := range items {
		r.items = append(r.items, item{Item: it, group: g, account: of[i]})
	}
	return nil
}

func (r *run) damaged(d *spool.Damage) {
	d.Say(r.Log)
	r.result.Damage = spool.Worse(r.result.Damage, d)
}

// sort orders the items for sending. Those of one file, captured one after the
// other, never change places when the order is that of capture, whatever the
// clock did.
func (r *run) sort() {
	if r.Order == ByEvent {
		slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Compare(a.Time, b.Time) })
		return
	}
	first := map[*group]int64{}
	for _, it := range r.items {
		if at, ok := first[it.group]; !ok || it.Captured < at {
			first[it.group] = it.Captured
		}
	}
	slices.SortStableFunc(r.items, func(a, b item) int {
		return cmp.Compare(first[a.group], first[b.group])
	})
}

// countBusy counts what is left because somebody else has it in hand.
func (r *run) countBusy(busy [][]*spool.File) error {
	for _, files := range busy {
		for _, f := range files {
			_, err := f.Read(func(l *spool.Letter, s spool.Status) error {
				if s == spool.Pending {
					s = spool.New
				}
				if r.Judge(l, s) == Send {
					acc := &r.accounts.list[r.accounts.number(l)]
					acc.Selected++
					acc.InUse++
					r.result.InUse++
				}
				return nil
			}, func(*spool.Damage) {})
			var d *spool.Damage
			if errors.As(err, &d) {
				r.damaged(d)
			} else if err != nil {
				return err
			}
		}
	}
	if r.result.InUse > 0 {
		r.Log.Info("files in use are left alone", "files", len(busy), "records", r.result.InUse)
	}
	return nil
}

// verdict is how a replay ends whose command ended well.
func (r *run) verdict() error {
	res := &r.result
	switch {
	case res.Stopped:
		return nil
	case res.Failed > 0:
		return sysexits.Errorf(sysexits.DataErr, "%d of %d records were refused again and are now in %s",
			res.Failed, res.Send, listed(res.FailedFiles))
	case res.TooOld > 0:
		return sysexits.WithHint(sysexits.Errorf(sysexits.DataErr, "%d records are older than --max-age and were left alone", res.TooOld),
			"--ts now or --ts clamp send them under the present time with their own in event_time; "+
				"--max-age 0 if this Loki takes them; --force sends them as they are")
	case res.Returned > 0:
		return sysexits.WithHint(sysexits.Errorf(sysexits.TempFail, "%d of %d records were sent and nobody said what became of them: they are still to be replayed",
			res.Returned, res.Send), "a command that leaves records out makes this: leave them out with the selection instead")
	case res.InUse > 0 && r.crowded:
		return sysexits.WithHint(sysexits.Errorf(sysexits.TempFail, "%d records are in more files than can be open at once", res.InUse),
			"run this again for the rest, or raise ulimit -n")
	case res.InUse > 0:
		return sysexits.WithHint(sysexits.Errorf(sysexits.TempFail, "%d records are in files that another process has in hand", res.InUse),
			"a writer gives a file away a minute after its last record: run this again then")
	}
	return res.Damage.Verdict()
}

func listed(paths []string) string {
	switch len(paths) {
	case 0:
		return "no file"
	case 1:
		return paths[0]
	}
	return fmt.Sprintf("%s and %d other files", paths[0], len(paths)-1)
}
