package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fromDockerfile goes through the Dockerfile as a builder does, and wants what it makes to be the image of make image:
// the same files, byte for byte, and the same user, ports, variables and command. dist is where the archives are that
// it adds.
func fromDockerfile(t *testing.T, want *v1.ConfigFile, layer []byte, dist string) {
	t.Helper()
	made := v1.Config{Labels: want.Config.Labels, ExposedPorts: map[string]struct{}{}} // labels are for who builds it to give
	var files []byte
	for _, line := range instructions(t) {
		what, rest, _ := strings.Cut(line, " ")
		switch what {
		case "FROM":
			if rest != "scratch" || files != nil {
				t.Errorf("%s: want the image to be from scratch, with nothing in it that weir does not need", line)
			}
		case "ARG":
			if rest != "TARGETARCH" {
				t.Errorf("%s: make image has no such argument", line)
			}
		case "ADD":
			from, to, _ := strings.Cut(strings.ReplaceAll(rest, "${TARGETARCH}", want.Architecture), " ")
			name, below := strings.CutPrefix(from, "dist/")
			if files != nil || to != "/" || !below {
				t.Fatalf("%s: want one layer, of an archive in dist that is unpacked into /", line)
			}
			var err error
			if files, err = os.ReadFile(filepath.Join(dist, name)); err != nil {
				t.Fatalf("%s: make image does not make what is added: %v", line, err)
			}
		case "ENV":
			made.Env = append(made.Env, rest)
		case "WORKDIR":
			made.WorkingDir = rest
		case "USER":
			made.User = rest
		case "EXPOSE":
			for port := range strings.FieldsSeq(rest) {
				made.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "ENTRYPOINT":
			made.Entrypoint = words(t, rest)
		case "CMD":
			made.Cmd = words(t, rest)
		default:
			t.Errorf("%s: this test does not know that instruction, and so cannot tell what it makes", line)
		}
	}
	if !reflect.DeepEqual(made, want.Config) {
		t.Errorf("the Dockerfile makes an image of\n%+v, make image one of\n%+v", made, want.Config)
	}
	if !bytes.Equal(files, layer) {
		t.Error("the files that the Dockerfile adds are not the layer of the image that make image builds")
	}
}

// instructions reads the Dockerfile. It knows comments and instructions of one line, and fails on more.
func instructions(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "\\") || strings.Contains(line, "<<") {
			t.Fatalf("%s: this test does not read instructions of several lines", line)
		}
		if line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// words reads the JSON form of a command. The other form needs a shell, which the image has not.
func words(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Errorf("%s is not a list of words (%v): there is no shell in the image to read it", text, err)
	}
	return list
}

// layer returns the files of an image that has one layer.
func layer(t *testing.T, img v1.Image) []byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
