package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/lease"
	"sf2loki/pkg/sysexits"
)

// guard keeps people from changing a document by hand while somebody leads
// under its lease.
type guard struct {
	app   *cli.App
	epoch uint64
	force bool
}

func (g *guard) flags(fs *flag.FlagSet) {
	epochVar(fs, &g.epoch)
	fs.BoolVar(&g.force, "force", false, "change the document even while its lease is held")
}

// update changes the document, if it may be changed.
func (g *guard) update(ctx context.Context, store checkpoint.Store, edit func(*checkpoint.Document) error) error {
	return checkpoint.Update(ctx, store, g.epoch, checkpoint.DefaultRetry, func(doc *checkpoint.Document) error {
		if err := g.check(ctx, store, *doc); err != nil {
			return err
		}
		return edit(doc)
	})
}

// check is nil when doc may be changed. What runs under the lease itself, and
// has its epoch, may.
func (g *guard) check(ctx context.Context, store checkpoint.Store, doc checkpoint.Document) error {
	leader, ok := doc.Leader()
	if !ok || g.force || g.epoch > 0 {
		return nil
	}
	return sysexits.WithHint(checkLive(ctx, g.app, store.String(), leader),
		"stop what runs under the lease first; --force goes on without regard to it")
}

// checkLive is nil when nobody holds the lease under which the fence of
// document was raised.
func checkLive(ctx context.Context, app *cli.App, document string, by checkpoint.Leader) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	backend, err := openLease(app, by.Lease, 0)
	var r lease.Record
	if err == nil {
		r, _, err = backend.Read(ctx)
	}
	switch {
	case errors.Is(err, checkpoint.ErrNotFound), sysexits.Of(err) == sysexits.CantCreat:
		return nil // there is none, or not on this host
	case errors.Is(err, lease.ErrCorrupt):
		return sysexits.Errorf(sysexits.Protocol, "%s belongs to the lease %s, which is corrupt: %s may hold it", document, by.Lease, by.Holder)
	case err != nil:
		return fmt.Errorf("%s belongs to a lease, and whether that is held is not known: %w", document, err)
	case !lease.Live(r, time.Now()):
		return nil
	}
	return sysexits.Errorf(sysexits.Protocol, "%s is led by %s, which holds the lease %s (renewed %s)",
		document, r.Holder, by.Lease, r.Renewed.UTC().Format(time.RFC3339))
}
