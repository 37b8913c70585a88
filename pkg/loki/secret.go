package loki

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"sf2loki/pkg/sysexits"
)

// authorizer sets the Authorization header of a request.
type authorizer interface{ authorize(h http.Header) error }

type noAuth struct{}

func (noAuth) authorize(http.Header) error { return nil }

type bearer struct{ token *secret }

func (b bearer) authorize(h http.Header) error {
	token, err := b.token.value()
	if err != nil {
		return err
	}
	h["Authorization"] = []string{"Bearer " + token}
	return nil
}

type basic struct {
	user     string
	password *secret
}

func (b basic) authorize(h http.Header) error {
	password, err := b.password.value()
	if err != nil {
		return err
	}
	h["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(b.user+":"+password))}
	return nil
}

// secretsOf are the secrets in the headers of a request.
func secretsOf(h http.Header) []string {
	scheme, sent, _ := strings.Cut(h.Get("Authorization"), " ")
	if sent == "" {
		return nil
	}
	list := []string{sent}
	if plain, err := base64.StdEncoding.DecodeString(sent); scheme == "Basic" && err == nil {
		_, password, _ := strings.Cut(string(plain), ":")
		list = append(list, string(plain), password)
	}
	return list
}

// hide puts stars in the place of secrets that a server quotes.
func hide(text []byte, secrets []string) []byte {
	for _, s := range secrets {
		if s != "" {
			text = bytes.ReplaceAll(text, []byte(s), []byte("***"))
		}
	}
	return text
}

// newAuthorizer picks the credentials: a token or a user of the configuration,
// else the userinfo of the URL.
func newAuthorizer(cfg Config, inURL *url.Userinfo) (authorizer, error) {
	if inURL != nil {
		cfg.Log.Warn("the URL holds credentials, where other users of the machine can see them; use a secret file")
	}
	if cfg.Token != nil && cfg.User != "" {
		return nil, sysexits.Errorf(sysexits.Config, "both a token and a user are given; Loki takes one of them")
	}
	switch {
	case cfg.Token != nil:
		token := &secret{name: "token", read: cfg.Token, log: cfg.Log}
		_, err := token.value()
		return bearer{token}, err
	case cfg.User != "":
		if cfg.Password == nil {
			return nil, sysexits.Errorf(sysexits.Config, "user %q has no password", cfg.User)
		}
		return newBasic(cfg, cfg.User, cfg.Password)
	case cfg.Password != nil:
		return nil, sysexits.Errorf(sysexits.Config, "a password is given, but no user")
	case inURL != nil:
		password, _ := inURL.Password()
		return newBasic(cfg, inURL.Username(), func() (string, error) { return password, nil })
	}
	return noAuth{}, nil
}

func newBasic(cfg Config, user string, read func() (string, error)) (authorizer, error) {
	if strings.Contains(user, ":") {
		return nil, sysexits.Errorf(sysexits.Config, "a user name with a colon cannot be sent as basic auth")
	}
	password := &secret{name: "password", read: read, log: cfg.Log}
	_, err := password.value()
	return basic{user, password}, err
}

// secret is a value that is read again for every request. A file that is being
// replaced can be empty or gone for a moment: until it can be read again, the
// last good value serves.
type secret struct {
	name string
	read func() (string, error)
	log  *slog.Logger

	mu      sync.Mutex
	last    string
	have    bool
	failing bool
}

func (s *secret) value() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.read()
	if err == nil && hasControl(v) {
		err = sysexits.Errorf(sysexits.Config, "the %s holds a line break or another control character", s.name)
	}
	if err == nil {
		s.last, s.have, s.failing = v, true, false
		return v, nil
	}
	if !s.have {
		if sysexits.Coded(err) {
			return "", err
		}
		return "", sysexits.Wrap(sysexits.Config, fmt.Errorf("read the %s: %w", s.name, err))
	}
	if !s.failing {
		s.log.Warn("secret cannot be read, its last value is used", "secret", s.name, "err", err)
		s.failing = true
	}
	return s.last, nil
}
