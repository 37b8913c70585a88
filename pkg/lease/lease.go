// Package lease lets one of several contenders lead: who holds the lease, and
// has raised the epoch of the documents that belong to it. It judges staleness
// by its own monotonic clock only. ckpt(1) describes it from the outside, in
// the section on leases.
package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

// version is the newest form of a lease document that this release knows.
const version = 1

// MaxBytes is far beyond any lease; more is not one.
const MaxBytes = 64 << 10

// Record is what a lease says.
type Record struct {
	Holder  string        // empty: nobody, it was released
	Epoch   uint64        // grows with every holder
	TTL     time.Duration // the holder's; 0 when it does not say
	Renewed time.Time     // by the holder's clock, for people
	Term    string        // random, of one time of leading
	Count   uint64        // of the writes of that term, so that no two are equal
}

// Backend holds one lease by compare-and-swap, in the way of checkpoint.Store.
type Backend interface {
	// Read tells what the lease says: checkpoint.ErrNotFound when there is
	// none, ErrCorrupt with its generation when it cannot be understood.
	Read(ctx context.Context) (Record, checkpoint.Generation, error)
	// Write replaces it if its generation still is ifGen, empty for none:
	// checkpoint.ErrConflict when it is another.
	Write(ctx context.Context, r Record, ifGen checkpoint.Generation) (checkpoint.Generation, error)
	// String names the lease as its user wrote it.
	String() string
}

// ErrCorrupt is what a Backend says of a lease that is no JSON: whoever held it
// may hold it still.
var ErrCorrupt = errors.New("the lease is corrupt")

// document is a lease as it is stored. Without a version it is the daemon's,
// whose members may be null.
type document struct {
	Version *int64  `json:"v,omitempty"`
	Holder  *string `json:"holder"`
	Epoch   *uint64 `json:"epoch"`
	TTL     string  `json:"ttl,omitempty"`
	Renewed string  `json:"renewed_at,omitempty"`
	Expires *string `json:"expires_at"` // the daemon looks here
	Term    string  `json:"term,omitempty"`
	Count   uint64  `json:"count,omitempty"`
}

// timeLayout is one that the daemon reads as well.
const timeLayout = "2006-01-02T15:04:05.000000-07:00"

// Marshal is the text of a lease.
func (r Record) Marshal() []byte {
	v := int64(version)
	now := r.Renewed.UTC()
	expires := now.Add(r.TTL)
	if r.Holder == "" {
		expires = now
	}
	until := expires.Format(timeLayout)
	text, _ := json.Marshal(document{ // nothing in it can fail
		Version: &v, Holder: &r.Holder, Epoch: &r.Epoch, TTL: r.TTL.String(),
		Renewed: now.Format(timeLayout), Expires: &until, Term: r.Term, Count: r.Count,
	})
	return append(text, '\n')
}

// Parse reads a lease. What is no JSON is ErrCorrupt; what is JSON and no lease
// is somebody else's document, and a wrong configuration.
func Parse(data []byte) (Record, error) {
	if len(data) > MaxBytes {
		return Record{}, sysexits.Errorf(sysexits.Config, "not a lease but something longer; name a place of its own for the lease")
	}
	if !json.Valid(data) {
		return Record{}, ErrCorrupt
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return Record{}, sysexits.Errorf(sysexits.Config, "not a lease but other JSON; name a place of its own for the lease")
	}
	if _, ok := members["holder"]; !ok && len(members) > 0 {
		return Record{}, sysexits.Errorf(sysexits.Config, "not a lease but another document; name a place of its own for the lease")
	}
	var d document
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&d); err != nil {
		return Record{}, sysexits.Errorf(sysexits.Config, "not a lease as this release writes it: %.200v", err)
	}
	if d.Version != nil && *d.Version > version {
		return Record{}, sysexits.Errorf(sysexits.Config, "the lease has version %d, newer than this release knows", *d.Version)
	}
	return d.record()
}

func (d document) record() (Record, error) {
	r := Record{Term: d.Term, Count: d.Count}
	if d.Holder != nil {
		r.Holder = *d.Holder
	}
	if d.Epoch != nil {
		r.Epoch = *d.Epoch
	}
	if d.TTL != "" {
		ttl, err := time.ParseDuration(d.TTL)
		if err != nil || ttl <= 0 {
			return Record{}, sysexits.Errorf(sysexits.Config, "the ttl of the lease is %.80q", d.TTL)
		}
		r.TTL = ttl
	}
	r.Renewed, _ = time.Parse(time.RFC3339, d.Renewed) // for people only
	if d.Version == nil && d.Expires != nil {
		r.Renewed, _ = time.Parse(time.RFC3339, *d.Expires)
	} else if d.Version == nil {
		r.Holder = "" // without an end it was never held
	}
	return r, nil
}

// Documents is the Backend in a store: whatever compares and swaps documents
// can keep a lease too.
func Documents(store checkpoint.Store) Backend { return documents{store} }

type documents struct{ store checkpoint.Store }

func (d documents) String() string { return d.store.String() }

func (d documents) Read(ctx context.Context) (Record, checkpoint.Generation, error) {
	data, gen, err := d.store.Get(ctx)
	if err != nil {
		return Record{}, "", wrap("read", d, err)
	}
	r, err := Parse(data)
	return r, gen, wrap("read", d, err)
}

func (d documents) Write(ctx context.Context, r Record, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	gen, err := d.store.Put(ctx, r.Marshal(), ifGen)
	return gen, wrap("write", d, err)
}

// wrap says which lease an error is about.
func wrap(verb string, b Backend, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the lease %s: %w", verb, b, err)
}

// Live tells whether r is held, as far as the clocks of its holder and ours
// tell: a holder that is silent for twice its ttl is not. It is for people who
// change documents by hand; who leads is never decided so.
func Live(r Record, now time.Time) bool {
	ttl := r.TTL
	if ttl == 0 {
		ttl = time.Minute // of a daemon, which says when its lease ends
	}
	return r.Holder != "" && now.Sub(r.Renewed).Abs() < 2*ttl
}
