"""Products of matrices beside those of the array library: by cuBLASLt on a GPU, by AVX512-BF16 on a CPU."""
