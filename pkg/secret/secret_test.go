package secret

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"
)

const planted = `p+q/r=s&t"u\v%w x'y<zä😀end`

func set(texts ...string) *Set {
	s := &Set{}
	s.Add(texts...)
	return s
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

func inXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

func inGo(s string) string {
	s = fmt.Sprintf("%q", s)
	return s[1 : len(s)-1]
}

func inASCII(s string) string {
	s = fmt.Sprintf("%+q", s)
	return strings.ReplaceAll(s[1:len(s)-1], `\U0001f600`, `\ud83d\ude00`)
}

// quotings are how servers quote, and undo is how a reader would see through.
var quotings = []struct {
	name string
	do   func(string) string
}{
	{"plain", func(s string) string { return s }},
	{"JSON", inJSON},
	{"JSON of PHP", func(s string) string { return strings.ReplaceAll(inASCII(s), "/", `\/`) }},
	{"JSON in JSON", func(s string) string { return inJSON(inJSON(s)) }},
	{"JSON twice in JSON", func(s string) string { return inJSON(inJSON(inJSON(s))) }},
	{"Go", inGo},
	{"Go in ASCII", inASCII},
	{"form", url.QueryEscape},
	{"form in lower case", func(s string) string { return strings.ToLower(url.QueryEscape(s)) }}, // no letter of it is in upper case
	{"path", url.PathEscape},
	{"form twice", func(s string) string { return url.QueryEscape(url.QueryEscape(s)) }},
	{"form in JSON", func(s string) string { return inJSON(url.QueryEscape(s)) }},
	{"JSON in a form", func(s string) string { return url.QueryEscape(inJSON(s)) }},
	{"HTML", html.EscapeString},
	{"XML", inXML},
	{"form in HTML", func(s string) string { return strings.ReplaceAll(html.EscapeString(url.QueryEscape(s)), "+", "&#43;") }},
	{"HTML in JSON", func(s string) string { return inJSON(html.EscapeString(s)) }},
	{"JSON in HTML", func(s string) string { return html.EscapeString(inJSON(s)) }},
	{"names of HTML", func(s string) string {
		return strings.NewReplacer("+", "&plus;", "/", "&sol;", "=", "&equals;", "&", "&amp;", `"`, "&quot;", `\`, "&bsol;", "%", "&percnt;").Replace(s)
	}},
	{"numbers of HTML", func(s string) string {
		var b strings.Builder
		for i, r := range s {
			_, _ = fmt.Fprintf(&b, []string{"&#%d;", "&#x%x;", "&#X%X;", "&#%05d;"}[i%4], r)
		}
		return b.String()
	}},
	{"all of it in JSON", func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if _, _ = fmt.Fprintf(&b, `\u%04X`, r); r > 0xffff {
				return strings.Split(b.String(), `\u1F600`)[0] + `\ud83d\ude00` + inJSON("end")
			}
		}
		return b.String()
	}},
}

func TestHide(t *testing.T) {
	for _, q := range quotings {
		for _, around := range []string{`{"error":"%s","x":1}`, `<b>%s</b>`, `a=b&c=%s&d`, `%s`, `it is "%s"`} {
			text := strings.Replace(around, "%s", q.do(planted), 1)
			want := strings.Replace(around, "%s", Mark, 1)
			if got := set("another-secret", planted).Hide(text); got != want {
				t.Errorf("%s: %s becomes %s, want %s", q.name, text, got, want)
			}
		}
	}
}

// What was JSON remains so.
func TestHideInJSON(t *testing.T) {
	for _, q := range quotings {
		for _, text := range []string{planted, `\` + planted, planted + `\`, `"` + planted + `"`, "\n" + planted, "n" + planted} {
			if text = `"` + inJSON(q.do(text)) + `"`; !json.Valid([]byte(set(planted, "n"+planted).Hide(text))) {
				t.Errorf("%s: %s becomes %s", q.name, text, set(planted).Hide(text))
			}
		}
	}
}

// Wherever what a server quotes is cut, at either end, no eight bytes of it are
// left.
func TestHideOfPieces(t *testing.T) {
	for _, q := range quotings {
		whole := q.do(planted)
		for i := range len(whole) {
			for _, piece := range []string{whole[:i], whole[i:], whole[i/2 : i], whole[i:min(len(whole), i+40)]} {
				if left := set(planted).Hide("a " + piece + " b"); seen(q.do, strings.ReplaceAll(left, Mark, "\x00"), planted) {
					t.Fatalf("%s: of %s there is left %s", q.name, piece, left)
				}
			}
		}
	}
}

// seen tells whether text holds eight bytes of secret as quote writes them.
func seen(quote func(string) string, text, secret string) bool {
	runes := []rune(secret)
	for i := range runes {
		for j := i + 1; j <= len(runes); j++ {
			if part := string(runes[i:j]); len(part) >= Piece {
				if strings.Contains(text, quote(part)) {
					return true
				}
				break
			}
		}
	}
	return false
}

func TestWhatIsLeftAlone(t *testing.T) {
	for _, c := range []struct{ secret, text string }{
		{"abcdefghij", "abcdefg hij bcdefgh-ij"},
		{"abcdefghij", "ABCDEFGHIJ"},
		{"abcdefg", "abcdef"},
		{"abc", "abc abc"},
		{"", "a text"},
		{"a b c d e f", "a_b_c_d_e_f"},
		{"abcdefghij", ""},
		{"%41%41%41", "AAA"},
	} {
		if got := set(c.secret).Hide(c.text); got != c.text {
			t.Errorf("without %q, %q becomes %q", c.secret, c.text, got)
		}
	}
	var none *Set
	none.Add("abcdefghij")
	if got := none.Hide("abcdefghij"); got != "abcdefghij" {
		t.Errorf("a set that is none makes %q", got)
	}
}

func TestShortSecrets(t *testing.T) {
	s := set("loki", "abc", "longer-than-that")
	const text = "loki-push: abc lok longer- onger-than"
	if got, want := s.Hide(text), "[secret]-push: abc lok longer- [secret]"; got != want {
		t.Errorf("in a server's words: %s", got)
	}
	if got, want := s.HideLong(text), "loki-push: abc lok longer- [secret]"; got != want {
		t.Errorf("in our own: %s", got)
	}
}

// A mark covers what overlaps, whichever secret it is of.
func TestSecretsInEachOther(t *testing.T) {
	if got := set("abcdefghij", "ghijklmnop").Hide("<abcdefghijklmnop>"); got != "<[secret]>" {
		t.Error(got)
	}
}

// The latest secrets are known, however many there have been.
func TestKept(t *testing.T) {
	s := &Set{}
	for i := range 100 {
		s.Add(fmt.Sprintf("number-%06d", i), "always-used")
	}
	if got := s.Hide("number-000099 always-used"); got != "[secret] [secret]" {
		t.Error(got)
	}
	if got := s.Hide(";000000;"); got != ";000000;" {
		t.Error(got)
	}
}

func TestError(t *testing.T) {
	s := set("a-long-secret")
	if err := s.Error(io.EOF); err != io.EOF {
		t.Errorf("an error without a secret becomes %v", err)
	}
	if s.Error(nil) != nil {
		t.Error("nil becomes an error")
	}
	err := s.Error(fmt.Errorf("malformed %q: %w", "a-long-secret", io.EOF))
	if err.Error() != `malformed "[secret]": EOF` || !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// No text takes long, not even one made to, nor with a secret that is made for
// it.
func TestCost(t *testing.T) {
	secrets := set(strings.Repeat("a", 500), strings.Repeat("ab+%", 200), strings.Repeat("&amp;", 100), planted)
	start := time.Now()
	for _, part := range []string{"a", "%", `\`, "&", "%25", "&amp;", `\u005c`, "&#37;25", "abababa+", planted, "ab+"} {
		secrets.Hide(strings.Repeat(part, 16<<10/len(part)))
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	t.Log(time.Since(start))
}

// random is a secret as tokens are.
func random(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[r.IntN(64)]
	}
	return string(b)
}

func BenchmarkHide(b *testing.B) {
	s := set(planted, random(800))
	line := strings.Repeat(`level=info msg="a line of the log" entries=17 `, 5)
	b.ReportAllocs()
	for b.Loop() {
		s.HideLong(line)
	}
}

// Each character of a secret in a form that was picked for it, cut anywhere, in
// any text: no eight characters of it are left as they were written.
func FuzzHide(f *testing.F) {
	f.Add("before ", planted, " after", []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 0, 1000)
	f.Add(`{"a":"\`, "abc%2Fdef+ghi", `"}`, []byte{1, 5, 3}, 9, 40)
	f.Add("", "aaaaaaaaaaaa", "aaa", []byte{6}, 2, 20)
	f.Fuzz(func(t *testing.T, before, text, after string, picks []byte, from, to int) {
		if len(text) > 60 || len(before) > 200 || len(after) > 200 || !strings.ContainsFunc(text, func(r rune) bool { return r > ' ' }) {
			return
		}
		text = strings.ToValidUTF8(text, "?")
		var forms []string
		for i, r := range text {
			pick := byte(0)
			if len(picks) > 0 {
				pick = picks[i%len(picks)]
			}
			forms = append(forms, written(string(r), pick))
		}
		quoted := before + strings.Join(forms, "") + after
		from = min(max(from, 0), len(quoted))
		quoted = quoted[from:max(from, min(to, len(quoted)))]
		left := set(text).Hide(quoted)
		runes := []rune(text)
		for i := range forms {
			for j := i + 1; j <= len(forms); j++ {
				if len(string(runes[i:j])) < Piece {
					continue
				}
				for part := range strings.SplitSeq(left, Mark) {
					if strings.Contains(part, strings.Join(forms[i:j], "")) {
						t.Fatalf("of %q in %q there is left %q", text, quoted, left)
					}
				}
				break
			}
		}
		if left == quoted {
			return
		}
		if other := set("\x01\x02\x03\x04\x05\x06\x07\x08").Hide(left); other != left {
			t.Fatalf("a secret that is not there was found in %q", left)
		}
	})
}

// written is one character in a form, which may be escaped once more.
func written(char string, pick byte) string {
	once := escaped(char, pick%10)
	if pick/10%3 == 0 {
		return once
	}
	var b strings.Builder
	for _, r := range once {
		b.WriteString(escaped(string(r), pick/30%10))
	}
	return b.String()
}

func escaped(char string, how byte) string {
	r := []rune(char)[0]
	switch {
	case how == 1:
		return url.QueryEscape(char)
	case how == 2:
		return url.PathEscape(char)
	case how == 3:
		if quoted := url.QueryEscape(char); quoted != char {
			return strings.ToLower(quoted)
		}
	case how == 4:
		return inJSON(char)
	case how == 5 && r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	case how == 6 && html.UnescapeString(fmt.Sprintf("&#%d;", r)) == char:
		return fmt.Sprintf("&#%d;", r)
	case how == 7 && html.UnescapeString(fmt.Sprintf("&#%d;", r)) == char:
		return fmt.Sprintf("&#x%X;", r)
	case how == 8:
		return html.EscapeString(char)
	case how == 9 && strings.Contains(`/"'\+`, char):
		return `\` + char
	}
	return char
}
