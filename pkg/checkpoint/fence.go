package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sf2loki/pkg/sysexits"
)

// ErrFenced is what RaiseFence says when the document has that epoch, or a
// higher one, of somebody else.
var ErrFenced = errors.New("another has raised the epoch that far")

// Leader says under which lease, and by whom, the fence of a document was
// raised last.
type Leader struct {
	Lease  string `json:"lease"`  // its location
	Holder string `json:"holder"` // as ckpt lease --id names it
	Term   string `json:"term"`   // no other time of leading has this text
}

// Leader tells who raised the fence last, if a lease ever did.
func (d Document) Leader() (Leader, bool) {
	text, ok := d.Get(leaseKey)
	if !ok {
		return Leader{}, false
	}
	var l Leader
	if json.Unmarshal([]byte(text), &l) != nil || l.Lease == "" {
		return Leader{}, false
	}
	return l, true
}

func (d *Document) setLeader(l Leader) {
	text, _ := json.Marshal(l) // three strings always encode
	d.Set(leaseKey, string(text))
}

// Fence reads the epoch of the document in store, and who raised it last.
func Fence(ctx context.Context, store Store) (uint64, Leader, error) {
	doc, _, epoch, err := loadFenced(ctx, store)
	if err != nil {
		return 0, Leader{}, err
	}
	leader, _ := doc.Leader()
	return epoch, leader, nil
}

// RaiseFence makes epoch the least that may write the document in store.
// ErrFenced: somebody else has it that far already. still is asked after the
// document was read and before it is written: whoever raised it in between has
// changed it, so that one who slept there is refused.
func RaiseFence(ctx context.Context, store Store, epoch uint64, by Leader, still func() error, retry Retry) error {
	return retry.do(ctx, func() error {
		doc, gen, stored, err := loadFenced(ctx, store)
		if err != nil {
			return err
		}
		if last, ok := doc.Leader(); ok && last == by && stored == epoch {
			return nil // written before, and only the reply was lost
		}
		if stored >= epoch {
			return sysexits.Wrap(sysexits.Protocol, fmt.Errorf("%s: epoch %d: %w", store, stored, ErrFenced))
		}
		if err := still(); err != nil {
			return err
		}
		next := doc.Clone()
		next.SetFenceEpoch(epoch)
		next.setLeader(by)
		_, err = put(ctx, store, &next, gen)
		return err
	})
}

// Sequenced is a Store whose generations are hashes of the content, so that a
// document which comes back to what it was also comes back to its generation.
// Its documents carry a sequence, which never comes back.
type Sequenced interface{ Sequenced() }

// put writes doc, with the next sequence where there has to be one. What could
// not be read again is not written.
func put(ctx context.Context, store Store, doc *Document, gen Generation) (Generation, error) {
	if _, ok := store.(Sequenced); ok {
		doc.advance()
	}
	text := doc.Bytes()
	if err := fits(len(text), doc.Len()); err != nil {
		return "", fmt.Errorf("write %s: %w", store, err)
	}
	next, err := store.Put(ctx, text, gen)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", store, err)
	}
	return next, nil
}

// advance gives the document its next sequence: a number, and something random
// in case that the document was removed and began anew.
func (d *Document) advance() {
	text, _ := d.Get(sequenceKey)
	text, _, _ = strings.Cut(text, "-")
	n, _ := strconv.ParseUint(text, 10, 64) // what is none begins anew
	d.Set(sequenceKey, strconv.FormatUint(n+1, 10)+"-"+rand.Text())
}
