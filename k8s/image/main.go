// Command image puts weir's container image together without a container engine: an OCI image for each platform, an
// index over them, and a bill of materials, in one archive that podman, skopeo, kind and new versions of Docker load.
// The same binaries give the same digest, whenever and wherever they are packed.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// user owns nothing in the image and is nobody on the host; it is the usual number for images without a root.
	user   = "65532:65532"
	source = "https://github.com/weirproxy/weir"
)

// ports are what weir serve listens on unless it is told otherwise.
var ports = [...]string{"8080", "8081", "6070"}

// epoch is the time of all files: what is built twice must be the same.
var epoch = time.Unix(0, 0).UTC()

func main() {
	version := flag.String("version", "dev", "the version that the image says it is")
	bin := flag.String("bin", "bin", "where the binaries are, as linux-ARCH/weir")
	dist := flag.String("dist", "dist", "where to write weir-image.tar and, for the Dockerfile, linux-ARCH.tar")
	name := flag.String("name", "weir", "the image's name, for who loads the archive")
	flag.Parse()
	if err := run(*version, *bin, *dist, *name, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run packs the binaries of these architectures.
func run(version, bin, dist, name string, arches []string) error {
	if len(arches) == 0 {
		return errors.New("name at least one architecture: image amd64 arm64")
	}
	index := mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex)
	for _, arch := range arches {
		files, err := pack(filepath.Join(bin, "linux-"+arch, "weir"), version)
		if err != nil {
			return fmt.Errorf("the files for %s: %w", arch, err)
		}
		if err := write(filepath.Join(dist, "linux-"+arch+".tar"), files); err != nil {
			return err
		}
		img, err := build(files, version, arch)
		if err != nil {
			return fmt.Errorf("the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	index = mutate.Annotations(index, labels(version)).(v1.ImageIndex)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	out := filepath.Join(dist, "weir-image.tar")
	if err := archive(index, out, name+":"+version); err != nil {
		return fmt.Errorf("writing %s: %w", out, err)
	}
	fmt.Printf("%s: %s:%s for %s\n%s\n", out, name, version, strings.Join(arches, ", "), digest)
	return nil
}

func labels(version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "weir",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// write makes a file, and its directory if that is missing.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// build makes the image of one platform from its files, a tar archive.
func build(files []byte, version, arch string) (v1.Image, error) {
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer}); err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created.Time = "linux", arch, epoch
	file.History = []v1.History{{CreatedBy: "weir k8s/image", Created: v1.Time{Time: epoch}}}
	file.Config = v1.Config{
		User: user, Entrypoint: []string{"/bin/weir"}, Cmd: []string{"serve"}, Env: []string{"PATH=/bin"},
		WorkingDir: "/", Labels: labels(version), ExposedPorts: map[string]struct{}{},
	}
	for _, port := range ports {
		file.Config.ExposedPorts[port+"/tcp"] = struct{}{}
	}
	return mutate.ConfigFile(img, file)
}

// links are the other names of the binary: by each of them it takes the place of that program of envoyproxy/ratelimit.
var links = [...]string{"ratelimit", "ratelimit_client", "ratelimit_config_check"}

// pack returns the image's files, its only layer, as a tar archive.
func pack(path, version string) ([]byte, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bill, err := materials(binary, version)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	weir := filepath.Join(dir, "bin", "weir")
	err = errors.Join(write(weir, binary), os.Chmod(weir, 0o755), write(filepath.Join(dir, "usr/share/weir/sbom.cdx.json"), bill))
	for _, name := range links {
		err = errors.Join(err, os.Link(weir, filepath.Join(dir, "bin", name)))
	}
	if err != nil {
		return nil, err
	}
	return tarOf(dir)
}

// archive writes an OCI layout as a tar file.
func archive(index v1.ImageIndex, out, name string) error {
	dir, err := os.MkdirTemp("", "weir-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name}))
	if err != nil {
		return err
	}
	files, err := tarOf(dir)
	if err != nil {
		return err
	}
	return write(out, files)
}

// tarOf is a tar archive of what a folder holds, by GNU tar: without times, owners or an order of its own.
func tarOf(dir string) ([]byte, error) {
	program, err := exec.LookPath("gtar")
	if err != nil {
		program = "tar"
	}
	pack := exec.Command("sh", "-c", `"$0" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX `+
		`--format=ustar -cf - -- *`, program)
	pack.Dir, pack.Stderr = dir, os.Stderr // which names the option that another tar lacks
	files, err := pack.Output()
	if err != nil {
		return nil, fmt.Errorf("%s, which must be GNU tar; install that as gtar: %w", program, err)
	}
	return files, nil
}
