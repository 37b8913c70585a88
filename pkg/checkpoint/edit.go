package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"sf2loki/pkg/sysexits"
)

// Update changes the document by hand: edit gets the document as it is and
// changes it; it may be called again when another writer was quicker. A
// document that edit leaves as it was is not written.
func Update(ctx context.Context, store Store, epoch uint64, retry Retry, edit func(*Document) error) error {
	return retry.do(ctx, func() error {
		doc, gen, err := loadToWrite(ctx, store, epoch)
		if err != nil {
			return err
		}
		next := doc.Clone()
		if err := edit(&next); err != nil {
			return err
		}
		if gen != "" && next.Equal(doc) {
			return nil
		}
		_, err = put(ctx, store, &next, gen)
		return err
	})
}

// Move takes the document of from to to, which is another, and leaves a tombstone, so that who
// still writes to from is told. Positions that to already has stay, unless
// they are the same keys with other values. It returns the number of
// positions that to got.
func Move(ctx context.Context, from, to Store, retry Retry) (int, error) {
	count := 0
	err := retry.do(ctx, func() error {
		doc, gen, err := load(ctx, from)
		if err != nil {
			return err
		}
		if gen == "" {
			return sysexits.Errorf(sysexits.DataErr, "%s does not exist: there is nothing to move", from)
		}
		if there, ok := doc.MovedTo(); ok {
			return checkMovedThere(from, to, there)
		}
		if origin, _ := doc.Get(copiedKey); origin == from.String() {
			return sameDocument(ctx, doc, gen, from, to)
		}
		if count, err = copyInto(ctx, doc, from, to); err != nil {
			return err
		}
		if err := compare(ctx, doc, to); err != nil {
			return err
		}
		stone := tombstone(doc, to)
		_, err = put(ctx, from, &stone, gen)
		return err
	})
	return count, err
}

// checkMovedThere makes a repeated mv, or one whose last reply was lost, end
// well.
func checkMovedThere(from, to Store, there string) error {
	if there == to.String() {
		return nil
	}
	return sysexits.Errorf(sysexits.Protocol, "%s was moved to %s already", from, there)
}

// sameDocument undoes the copy that went into from itself: two names can lead
// to one document in more ways than names show.
func sameDocument(ctx context.Context, doc Document, gen Generation, from, to Store) error {
	doc.Delete(copiedKey)
	if _, err := put(ctx, from, &doc, gen); err != nil {
		return err
	}
	return sysexits.Errorf(sysexits.Usage, "%s and %s are the same document", from, to)
}

func copyInto(ctx context.Context, doc Document, from, to Store) (int, error) {
	target, gen, err := load(ctx, to)
	if err != nil {
		return 0, err
	}
	if back, ok := target.MovedTo(); ok {
		if back != from.String() {
			return 0, sysexits.Errorf(sysexits.Protocol, "%s was moved to %s; use that", to, back)
		}
		target.Delete(movedKey) // moving back to where it came from
	}
	count := 0
	for key, value := range doc.Positions() {
		if there, ok := target.Get(key); ok && there != value {
			return 0, sysexits.Errorf(sysexits.Protocol, "%s has another position for %s: %.120q, not %.120q", to, key, there, value)
		}
		target.Set(key, value)
		target.ClearRecordTime(key)
		if t, ok := doc.RecordTime(key); ok {
			target.SetRecordTime(key, t)
		}
		count++
	}
	if err := copyFence(doc, &target); err != nil {
		return 0, fmt.Errorf("%s or %s: %w", from, to, err)
	}
	target.Set(copiedKey, from.String())
	if _, err := put(ctx, to, &target, gen); err != nil {
		return 0, err
	}
	return count, nil
}

// copyFence takes the higher epoch along: an epoch never goes back, wherever
// the document is.
func copyFence(doc Document, target *Document) error {
	epoch, err := doc.FenceEpoch()
	if err != nil {
		return err
	}
	there, err := target.FenceEpoch()
	if err != nil || epoch <= there {
		return err
	}
	target.SetFenceEpoch(epoch)
	if leader, ok := doc.Leader(); ok {
		target.setLeader(leader)
	}
	return nil
}

// compare reads back what to stores now.
func compare(ctx context.Context, doc Document, to Store) error {
	stored, _, err := load(ctx, to)
	if err != nil {
		return err
	}
	for key, value := range doc.Positions() {
		if there, ok := stored.Get(key); !ok || there != value {
			return sysexits.Wrap(sysexits.TempFail, fmt.Errorf("%s does not hold %s as it was written: %w", to, key, ErrConflict))
		}
	}
	return nil
}

// tombstone keeps the fence: who leads there still does.
func tombstone(doc Document, to Store) Document {
	var stone Document
	stone.Set(movedKey, to.String())
	for _, key := range []string{fenceKey, leaseKey} {
		if value, ok := doc.Get(key); ok {
			stone.Set(key, value)
		}
	}
	return stone
}

// Mapping says where the keys of an imported document go.
type Mapping struct {
	Org     string // keys of no org get this one
	Daily   bool   // event log files are daily ones
	Replace bool   // positions that are there already with another value are replaced
}

// Imported is what became of one position of an imported document.
type Imported struct {
	From, To string
	Fate     Fate
}

// Fate is what became of an imported position.
type Fate string

// The fates.
const (
	Added    Fate = "added"
	Replaced Fate = "replaced"
	Same     Fate = "same"    // it was there already, with this value
	Shadowed Fate = "ignored" // its org's own key is in the document too, and wins
)

// Import puts the positions of in into doc. Positions that doc has with other
// values are an error that names them, unless they are to be replaced.
func Import(doc *Document, in Document, m Mapping) ([]Imported, error) {
	var done []Imported
	var taken []error
	for from, value := range in.Positions() {
		to := m.key(from)
		fate := Added
		there, ok := doc.Get(to)
		switch _, own := in.Get(to); {
		case to != from && own:
			fate = Shadowed
		case ok && there == value:
			fate = Same
		case ok && !m.Replace:
			taken = append(taken, fmt.Errorf("%s is %.120q there, %.120q here", to, there, value))
			continue
		case ok:
			fate = Replaced
		}
		if fate == Added || fate == Replaced {
			doc.Set(to, value)
			doc.ClearRecordTime(to)
		}
		done = append(done, Imported{From: from, To: to, Fate: fate})
	}
	if len(taken) > 0 {
		return nil, sysexits.Errorf(sysexits.Protocol, "positions that are there already with another value: %w", joinComma(taken))
	}
	return done, nil
}

// key maps the key of a source; everything else stays as it is.
func (m Mapping) key(text string) string {
	k := ParseKey(text)
	if !startsWithSource(k.Source) {
		return text
	}
	if k.Org == "" {
		k.Org = m.Org
	}
	if m.Daily && k.Source == SourceELF && k.Window == "" && EventType(k.Object) == k.Object {
		k.Object = dailyPrefix + k.Object
	}
	return k.String()
}

func joinComma(errs []error) error {
	text := ""
	for i, err := range errs {
		if i > 0 {
			text += ", "
		}
		text += err.Error()
	}
	return errors.New(text)
}
