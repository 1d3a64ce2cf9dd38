package kernels_test

import (
	"fmt"

	"github.com/purecuda/purecuda/kernels"
)

// Choosing an image for a device of compute capability 8.6.
func ExampleLookup() {
	source, ok := kernels.Lookup("saxpy")
	if !ok {
		fmt.Println("no such kernel")
		return
	}
	for _, image := range source.Images { // best first
		if image.Arch <= 86 {
			fmt.Printf("%s: sm_%d, PTX %s\n", source.Name, image.Arch, image.ISA)
			break
		}
	}
	// Output: saxpy: sm_75, PTX 6.4
}

func ExampleSHA256ChunksCPU() {
	data := []byte("a chunk of text.another")
	chunks := []kernels.Chunk{{Offset: 0, Length: 16}, {Offset: 16, Length: 7}}
	digests := make([]kernels.Digest, len(chunks))
	if err := kernels.SHA256ChunksCPU(data, chunks, 0, digests); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%x\n%x\n", digests[0][:4], digests[1][:4])
	// Output:
	// f3498fc3
	// ae448ac8
}
