package checkcmd

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// What GitHub's workflow commands escape: in a message, and in a property, which ends at a comma or a colon.
var (
	githubMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotate prints each problem as a workflow command, which GitHub Actions shows beside the line, and a last line for people.
func (c *Command) annotate(out io.Writer, x *checked) error {
	var b bytes.Buffer
	for i := range x.problems {
		p := &x.problems[i]
		title := cmp.Or(p.About(), "weir check")
		message := p.Text
		if p.Part != "" {
			message = p.Part + ": " + message
		}
		fmt.Fprintf(&b, "::%s ", c.severity(p))
		if p.File != "" && c.Path != "-" { // what came from standard input is in no repository
			fmt.Fprintf(&b, "file=%s,", githubProperty.Replace(x.path(p.File)))
			if p.Line > 0 {
				fmt.Fprintf(&b, "line=%d,", p.Line)
			}
		} else if p.File != "" {
			message = p.File + ":" + strconv.Itoa(p.Line) + ": " + message
		}
		fmt.Fprintf(&b, "title=%s::%s\n", githubProperty.Replace(title), githubMessage.Replace(message))
	}
	errs, warnings := c.count(x.problems)
	fmt.Fprintf(&b, "%s: %s, %s\n", name(c.Path), terminal.Count(errs, "error"), terminal.Count(warnings, "warning"))
	_, err := out.Write(b.Bytes())
	return err
}

// quality is an issue of GitLab's Code Quality report: the fields that GitLab needs.
type quality struct {
	Description string          `json:"description"`
	CheckName   string          `json:"check_name"`
	Fingerprint string          `json:"fingerprint"`
	Severity    string          `json:"severity"`
	Location    qualityLocation `json:"location"`
}

type qualityLocation struct {
	Path  string       `json:"path"`
	Lines qualityLines `json:"lines"`
}

type qualityLines struct {
	Begin int `json:"begin"`
}

// writeCodeQuality prints the problems as GitLab reads them.
func (c *Command) writeCodeQuality(out io.Writer, x *checked) error {
	report := []quality{}
	seen := make(map[string]int)
	for i := range x.problems {
		p := &x.problems[i]
		q := quality{Description: p.Text, CheckName: "weir/" + c.severity(p), Severity: "major",
			Location: qualityLocation{Path: cmp.Or(x.path(p.File), name(c.Path)), Lines: qualityLines{Begin: max(1, p.Line)}}}
		if c.severity(p) == "warning" {
			q.Severity = "minor"
		}
		for _, about := range []string{p.About(), p.Part} {
			if about != "" {
				q.Description = about + ": " + q.Description
			}
		}
		q.Fingerprint = fingerprint(p, q.Location.Path, seen)
		report = append(report, q)
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = out.Write(append(terminal.EscapeInvisible(text), '\n'))
	return err
}

// fingerprint returns what GitLab knows a problem by: the same when lines above it come or go, and never that of another.
func fingerprint(p *yaml.Problem, path string, seen map[string]int) string {
	same := strings.Join([]string{path, p.Part, p.Domain, p.Stored, p.Text}, "\x00")
	seen[same]++
	sum := sha256.Sum256([]byte(same + "\x00" + strconv.Itoa(seen[same])))
	return hex.EncodeToString(sum[:16])
}
