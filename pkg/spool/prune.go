package spool

type surveyCache struct{}

func (w *Writer) prune(room int64) error { return nil }

func (w *Writer) lookAround() {}
