package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// materials returns the CycloneDX bill of what a binary was linked from, as the Go linker wrote it into the binary. Its
// hash says which binary that is.
func materials(binary []byte, version string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("reading what the binary was built from: %w", err)
	}
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: "weir", Type: cyclonedx.ComponentTypeApplication, Name: "weir", Version: version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + version,
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(binary))}},
	}}
	components := []cyclonedx.Component{{
		BOMRef: "go", Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion[len("go"):],
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, cyclonedx.Component{
			BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url,
		})
	}
	bill.Components = &components
	var b bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.Encode(bill); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
