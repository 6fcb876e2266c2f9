package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fromDockerfile wants the Dockerfile to make the image of make image: the same files, byte for byte, and the same user,
// ports, variables and command. dist is where the archives are that it adds.
func fromDockerfile(t *testing.T, want *v1.ConfigFile, layer []byte, dist string) {
	t.Helper()
	const archive = "linux-${TARGETARCH}.tar"
	list := func(words []string) string { // without a shell, which the image has not
		return `["` + strings.Join(words, `", "`) + `"]`
	}
	c := want.Config
	made := strings.Join([]string{"FROM scratch", "ARG TARGETARCH", "ADD dist/" + archive + " /", "ENV " + strings.Join(c.Env, " "),
		"WORKDIR " + c.WorkingDir, "USER " + c.User, "EXPOSE " + strings.Join(ports[:], " "),
		"ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd), ""}, "\n")
	text, err := os.ReadFile("../../Dockerfile")
	if is := regexp.MustCompile(`(?m)^(#.*)?\n`).ReplaceAllString(string(text), ""); err != nil || is != made {
		t.Errorf("the Dockerfile says (%v)\n%s\nand make image makes an image of\n%s", err, is, made)
	}
	files, err := os.ReadFile(filepath.Join(dist, strings.ReplaceAll(archive, "${TARGETARCH}", want.Architecture)))
	if err != nil || !bytes.Equal(files, layer) {
		t.Errorf("the files that the Dockerfile adds are not the layer of the image that make image builds (%v)", err)
	}
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
