// Package secret keeps what the programs prove themselves with out of what they
// say: a server may quote it, in any of the forms that texts are escaped in.
// See the threat model in sf2loki-pipeline(7).
package secret

import (
	"slices"
	"sync"
)

// Mark stands where a secret was.
const Mark = "[secret]"

const (
	// Piece is the shortest part of a secret that is hidden, in bytes: servers
	// cut what they quote, and so do the programs.
	Piece = 8
	// shortest is the shortest secret that is hidden; it has to be there whole.
	// To hide a shorter one would take the letters out of every message.
	shortest = 4
	// longest is more than any token has, in bytes.
	longest = 64 << 10
	// kept is how many secrets are known at a time: sessions come and go, and a
	// server may still quote the one before.
	kept = 16
)

// Set is the secrets of a program, for any number of goroutines. A nil one
// holds none.
type Set struct {
	mu    sync.Mutex
	known []string // the latest is the last
	grams grams    // of them; never changed, only replaced
}

// Add takes in secrets; the oldest ones leave.
func (s *Set) Add(texts ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		text = text[:min(len(text), longest)]
		if len(text) < shortest || len(s.known) > 0 && s.known[len(s.known)-1] == text {
			continue
		}
		i := slices.Index(s.known, text)
		if i >= 0 {
			s.known = append(slices.Delete(s.known, i, i+1), text)
			continue
		}
		s.known = append(s.known, text)
		s.known = s.known[max(0, len(s.known)-kept):]
		s.grams = gramsOf(s.known)
	}
}

// Hide puts the mark in the place of secrets, and of eight bytes or more of one,
// in the words of a server. It is best used before they are cut, and after they
// are decoded, though most of what encodings do is seen through.
func (s *Set) Hide(text string) string { return s.hide(text, shortest) }

// HideLong is Hide for the programs' own words: a secret of less than eight
// bytes may be one of them, and their lack would tell it.
func (s *Set) HideLong(text string) string { return s.hide(text, Piece) }

func (s *Set) hide(text string, least int) string {
	if s == nil {
		return text
	}
	s.mu.Lock()
	g := s.grams
	s.mu.Unlock()
	if len(g) == 0 || len(text) < least {
		return text
	}
	if spans := g.find(text, least); len(spans) > 0 {
		return cover(text, spans)
	}
	return text
}

// Error is err with a text that Hide has seen; errors.Is and As see through it.
func (s *Set) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := s.Hide(text); hidden != text {
		return &hiddenError{hidden, err}
	}
	return err
}

type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }
