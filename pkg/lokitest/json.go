package lokitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeJSON decodes a push in JSON. Unlike encoding/json it keeps bytes that
// are not UTF-8, and refuses lone surrogates, as Loki's decoder does.
func decodeJSON(b []byte) ([]pushed, error) {
	var push struct {
		Streams []struct {
			Stream json.RawMessage     `json:"stream"`
			Values [][]json.RawMessage `json:"values"`
		} `json:"streams"`
	}
	err := json.NewDecoder(bytes.NewReader(b)).Decode(&push)
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, jsonError(err.Error(), b)
	}
	var streams []pushed
	for _, s := range push.Streams {
		labels, err := jsonLabels(s.Stream)
		if err != nil {
			return nil, jsonError(err.Error(), s.Stream)
		}
		p := pushed{labels: labels}
		for _, v := range s.Values {
			e, err := jsonEntry(v)
			if err != nil {
				return nil, jsonError(err.Error(), bytes.Join(rawBytes(v), []byte(",")))
			}
			p.entries = append(p.entries, e)
		}
		streams = append(streams, p)
	}
	return streams, nil
}

func rawBytes(v []json.RawMessage) (b [][]byte) {
	for _, m := range v {
		b = append(b, m)
	}
	return b
}

func jsonError(text string, excerpt []byte) error {
	text += fmt.Sprintf(", error found near ...|%.40s|...", excerpt)
	return errors.New("loghttp.PushRequest.Streams: []loghttp.LogProtoStream: " + text)
}

// jsonLabels turns the labels of a stream into their text: a number becomes
// text, of two of a name the last counts.
func jsonLabels(b json.RawMessage) (string, error) {
	if len(b) == 0 || string(b) == "null" {
		return "{}", nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return "", err
	}
	var labels []Label
	for name, raw := range m {
		value := string(raw)
		if raw[0] == '"' {
			var err error
			if value, err = jsonString(raw); err != nil {
				return "", err
			}
		}
		labels = append(labels, Label{name, value})
	}
	sortLabels(labels)
	return labelString(labels), nil
}

func jsonEntry(v []json.RawMessage) (e entry, err error) {
	if len(v) < 2 || len(v) > 3 {
		return e, errors.New("expected an array of two or three values")
	}
	stamp, err := jsonString(v[0])
	if err != nil {
		return e, err
	}
	ns, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return e, err
	}
	e.seconds, e.nanos = ns/1e9, int32(ns%1e9)
	if e.nanos < 0 {
		e.seconds, e.nanos = e.seconds-1, e.nanos+1e9
	}
	if e.line, err = jsonString(v[1]); err != nil || len(v) == 2 {
		return e, err
	}
	dec := json.NewDecoder(bytes.NewReader(v[2]))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return e, errors.New("expected an object of structured metadata")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return e, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return e, err
		}
		value, err := jsonString(raw)
		if err != nil {
			return e, err
		}
		e.metadata = append(e.metadata, Label{name.(string), value})
	}
	return e, nil
}

// jsonString unquotes a string that is JSON.
func jsonString(raw []byte) (string, error) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", fmt.Errorf("expected a string, but found %.20s", raw)
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), nil
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			b.WriteByte(raw[i])
			continue
		}
		i++
		if raw[i] != 'u' {
			b.WriteByte(jsonEscapes[raw[i]])
			continue
		}
		r := jsonHex(raw[i+1:])
		i += 4
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(raw) > i+6 && raw[i+1] == '\\' && raw[i+2] == 'u' {
				low = jsonHex(raw[i+3:])
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return "", errors.New("expects another escaped surrogate")
			}
			i += 6
		}
		b.WriteRune(r)
	}
	return b.String(), nil
}

var jsonEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func jsonHex(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}
