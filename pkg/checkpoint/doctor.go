package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"sf2loki/pkg/sysexits"
)

// Doctor examines store: what is there, then whether it is a document and
// whether the store keeps its promises, which it tries beside the document and
// never on it.
func Doctor(ctx context.Context, store Store) []Finding {
	var findings []Finding
	prober, ok := store.(Prober)
	if ok {
		findings = prober.Inspect(ctx)
	}
	if Verdict(findings) != nil {
		return findings // all else would fail for the same reason
	}
	findings = append(findings, examineDocument(ctx, store)...)
	if ok {
		findings = append(findings, tryScratch(ctx, prober))
	}
	return findings
}

// Verdict is nil without a failure, else an error of the first one's status.
func Verdict(findings []Finding) error {
	var first *Finding
	count := 0
	for i, f := range findings {
		if f.Level != Fail {
			continue
		}
		if count++; first == nil {
			first = &findings[i]
		}
	}
	if first == nil {
		return nil
	}
	return sysexits.Errorf(first.Code, "%d of %d checks failed, first: %s", count, len(findings), first.Check)
}

func examineDocument(ctx context.Context, store Store) []Finding {
	const check = "document"
	doc, gen, err := load(ctx, store)
	if err != nil {
		return []Finding{Failed(check, err, "move it aside, or restore one with ckpt import")}
	}
	if gen == "" {
		return []Finding{Passed(check, "there is none yet")}
	}
	if err := checkMoved(store, doc); err != nil {
		return []Finding{Failed(check, err, "name the new place in the pipeline's configuration")}
	}
	if _, err := doc.FenceEpoch(); err != nil {
		return []Finding{Failed(check, err, "stop the pipeline and set it to the lease's epoch")}
	}
	count := 0
	var findings []Finding
	for key, value := range doc.Positions() {
		count++
		if _, _, err := CheckValue(key, value); err != nil {
			findings = append(findings, Finding{Check: "position", Level: Warn, Detail: fmt.Sprintf("%s: %v", key, err),
				Cure: "ckpt set or ckpt rm it; its source may refuse it"})
		}
	}
	whole := Passed(check, fmt.Sprintf("%d positions", count))
	return append([]Finding{whole}, findings...)
}

// tryScratch proves compare-and-swap with deliberate mistakes.
func tryScratch(ctx context.Context, prober Prober) Finding {
	const check = "compare-and-swap"
	scratch, remove, err := prober.Scratch(ctx)
	if err != nil {
		return Failed(check, err, "")
	}
	err = provoke(ctx, scratch)
	if e := remove(ctx); err == nil && e != nil {
		err = fmt.Errorf("remove %s: %w", scratch, e)
	}
	if err != nil {
		return Failed(check, err, "keep the document in a store that honours conditional writes, and may be written")
	}
	return Passed(check, "writes of a wrong generation are refused")
}

func provoke(ctx context.Context, scratch Store) error {
	first, second := []byte(`{"doctor":"1"}`), []byte(`{"doctor":"2"}`)
	gen, err := scratch.Put(ctx, first, "")
	if err != nil {
		return fmt.Errorf("write %s: %w", scratch, err)
	}
	if err := mustRefuse(ctx, scratch, "", "a second first document"); err != nil {
		return err
	}
	next, err := scratch.Put(ctx, second, gen)
	if err != nil {
		return fmt.Errorf("write %s again: %w", scratch, err)
	}
	if err := mustRefuse(ctx, scratch, gen, "a write of an old generation"); err != nil {
		return err
	}
	data, got, err := scratch.Get(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", scratch, err)
	case !bytes.Equal(data, second) || got != next:
		return sysexits.Errorf(sysexits.Config, "%s does not hold what was written", scratch)
	}
	return nil
}

func mustRefuse(ctx context.Context, scratch Store, wrong Generation, what string) error {
	_, err := scratch.Put(ctx, []byte(`{"doctor":"wrong"}`), wrong)
	switch {
	case errors.Is(err, ErrConflict):
		return nil
	case err == nil:
		return sysexits.Errorf(sysexits.Config, "the store took %s: two writers would overwrite each other", what)
	}
	return fmt.Errorf("write %s: %w", scratch, err)
}
