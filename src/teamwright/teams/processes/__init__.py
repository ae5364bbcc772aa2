"""Members in processes of their own, as the lead's process has them: started, reached, heard, ended."""
