package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	purl "github.com/package-url/packageurl-go"
)

// sbomPath returns the path of the SBOM.
func sbomPath(out, arch string) string { return filepath.Join(out, "kube-vmap-"+arch+".cdx.json") }

// writeSBOM writes the SBOM of a binary, from its build info, in CycloneDX 1.6.
func writeSBOM(path string, binary []byte, arch string, r release) error {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("read the binary's build info: %w", err)
	}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(newSBOM(info, sha256.Sum256(binary), arch, r), cdx.SpecVersion1_6); err != nil {
		return fmt.Errorf("encode the SBOM: %w", err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the SBOM: %w", err)
	}
	return nil
}

// newSBOM returns an SBOM of the linked modules and Go itself.
func newSBOM(info *debug.BuildInfo, sum [sha256.Size]byte, arch string, r release) *cdx.BOM {
	main := component(cdx.ComponentTypeApplication, "kube-vmap", r.version,
		purl.Qualifier{Key: "goarch", Value: arch}, purl.Qualifier{Key: "goos", Value: "linux"})
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}

	parts := []cdx.Component{component(cdx.ComponentTypeLibrary, "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		parts = append(parts, component(cdx.ComponentTypeLibrary, module.Path, module.Version))
	}
	refs := make([]string, len(parts))
	for i, part := range parts {
		refs[i] = part.BOMRef
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = serialNumber(sum)
	bom.Metadata = &cdx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom
}

// component returns a component for a Go module at a version.
func component(kind cdx.ComponentType, module, version string, qualifiers ...purl.Qualifier) cdx.Component {
	namespace, name := "", module
	if i := strings.LastIndex(module, "/"); i >= 0 {
		namespace, name = module[:i], module[i+1:]
	}
	url := purl.NewPackageURL(purl.TypeGolang, namespace, name, version, qualifiers, "").ToString()
	return cdx.Component{Type: kind, BOMRef: url, Name: module, Version: version, PackageURL: url}
}

// serialNumber returns a UUID that depends only on the binary (version 8 of RFC 9562, for
// custom bits).
func serialNumber(sum [sha256.Size]byte) string {
	u := sum[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
